// SPDX-License-Identifier: Apache-2.0
#include "cairn/records/record_writer.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"

#include "io/internal/replacing_file.hpp"
#include "records/codec.hpp"
#include "records/internal/records.hpp"
#include "records/layout.hpp"

namespace cairn::records {
namespace {

constexpr std::uint64_t kPackedChunkBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kPlainChunkBytes = 4096;
/// The bytes that a record counts for in a chunk besides its own, so that empty ones fill it, too.
/// Source: riegeli's writer.
constexpr std::uint64_t kRecordOverhead = 8;
constexpr std::uint64_t kMostPackedAhead = std::uint64_t{64} << 20;

std::uint64_t size_of(std::span<const Bytes> fragments) {
  std::uint64_t bytes = 0;
  for (const Bytes fragment : fragments) {
    bytes += fragment.size();
  }
  return bytes;
}

/// A chunk that only needs a place in the file. Where nothing is packed its records lie behind `head`.
struct ReadyChunk {
  ChunkHeader header;
  std::string head;
  std::string packed;
};

}  // namespace

struct RecordWriter::State {
  State(const RecordOptions& options_, std::string& string) : State(options_) {
    out = &string;
    append(bytes_of(signature()));
  }
  State(const RecordOptions& options_, io::Syscalls& syscalls, const std::filesystem::path& path)
      : State(options_) {
    file.emplace(syscalls, path);
    append(bytes_of(signature()));
  }

  /// Any thread may; returns nothing for a record that shares a chunk, or is not worth the memory.
  [[nodiscard]] std::optional<ReadyChunk> prepare(Bytes record) const {
    const bool is_ahead = options.codec == Codec::none || record.size() <= kMostPackedAhead;
    return is_ahead && has_own_chunk(record.size()) ? std::optional(ready_of({&record, 1})) : std::nullopt;
  }

  std::uint64_t write(std::span<const Bytes> record, std::optional<ReadyChunk> ready) {
    require_usable("write");
    has_failed = true;  // Until it has not.
    const std::uint64_t bytes = size_of(record);
    const bool is_alone = has_own_chunk(bytes);
    const std::uint64_t added = bytes + kRecordOverhead;
    // As riegeli's writer does it, so that positions are the same.
    if (records > 0 && (is_alone || records == kMostRecordsOfChunk || filled > options.chunk_bytes - added)) {
      close_chunk();
    }
    const std::uint64_t its_position = position + records;
    if (is_alone) {
      put_chunk(ready ? *ready : ready_of(record), record);  // From where it lies.
    } else {
      append_varint(sizes, bytes);
      ++records;
      filled += added;
      for (const Bytes fragment : record) {
        values.append(reinterpret_cast<const char*>(fragment.data()), fragment.size());
      }
      if (is_full(filled)) {
        close_chunk();
      }
    }
    has_failed = false;
    return its_position;
  }

  void finish() {
    require_usable("finish");
    has_failed = true;
    if (records > 0) {
      close_chunk();
    }
    if (file) {
      file->publish();
    }
    has_failed = false;
    is_finished = true;
  }

 private:
  explicit State(const RecordOptions& options_) : options(checked(options_)) {
    if (options.chunk_bytes == 0) {
      options.chunk_bytes = options.codec == Codec::none ? kPlainChunkBytes : kPackedChunkBytes;
    }
  }

  void require_usable(std::string_view call) const {
    if (is_finished) {
      throw Error(Errc::closed, std::string(call) + ": the file of records is finished");
    }
    if (has_failed) {
      throw Error(Errc::io_failure, std::string(call) + ": an earlier write of records failed");
    }
  }

  [[nodiscard]] bool is_full(std::uint64_t bytes) const {
    return options.chunk_bytes < kRecordOverhead || bytes > options.chunk_bytes - kRecordOverhead;
  }
  [[nodiscard]] bool has_own_chunk(std::uint64_t bytes) const { return is_full(bytes + kRecordOverhead); }

  void close_chunk() {
    const std::array<Bytes, 1> whole = {bytes_of(values)};
    put_chunk(make_ready(sizes, records, whole), whole);
    sizes.clear();
    values.clear();
    records = 0;
    filled = 0;
  }

  /// Hashes and packs a chunk of one record.
  [[nodiscard]] ReadyChunk ready_of(std::span<const Bytes> record) const {
    std::string size;
    append_varint(size, size_of(record));
    return make_ready(size, 1, record);
  }

  [[nodiscard]] ReadyChunk make_ready(std::string_view all_sizes, std::uint64_t count,
                                      std::span<const Bytes> contents) const {
    const CodecTraits& codec = traits(options.codec);
    ReadyChunk ready;
    ready.header.type = chunk_type::kSimple;
    ready.header.records = count;
    ready.header.decoded_bytes = size_of(contents);
    ready.head = std::string(1, codec.letter);
    std::vector<Bytes> data(1);
    if (codec.codec == Codec::none) {
      append_varint(ready.head, all_sizes.size());
      ready.head += all_sizes;
      data.insert(data.end(), contents.begin(), contents.end());
    } else {
      const std::array<Bytes, 1> sizes_to_pack = {bytes_of(all_sizes)};
      append_varint(ready.packed, all_sizes.size());
      codec.functions.pack(options, sizes_to_pack, all_sizes.size(), ready.packed);
      append_varint(ready.head, ready.packed.size());
      append_varint(ready.packed, ready.header.decoded_bytes);
      codec.functions.pack(options, contents, ready.header.decoded_bytes, ready.packed);
      data.push_back(bytes_of(ready.packed));
    }
    data.front() = bytes_of(ready.head);
    ready.header.data_bytes = size_of(data);
    ready.header.data_hash = hash(data);
    return ready;
  }

  void put_chunk(const ReadyChunk& chunk, std::span<const Bytes> contents) {
    static constexpr std::array<std::byte, 4096> kZeros{};
    const std::uint64_t begin = position;
    const std::optional<std::uint64_t> end = chunk_end(begin, chunk.header);
    if (!end) {
      throw Error(Errc::invalid_argument, "a file of records cannot be so large");
    }
    put_in_blocks(bytes_of(encode(chunk.header)), begin, *end);
    put_in_blocks(bytes_of(chunk.head), begin, *end);
    const Bytes packed = bytes_of(chunk.packed);
    for (const Bytes fragment : options.codec == Codec::none ? contents : std::span(&packed, 1)) {
      put_in_blocks(fragment, begin, *end);
    }
    while (position < *end) {
      put_in_blocks(kZeros, begin, *end);
    }
  }

  /// Puts bytes of the chunk `[begin, end)`, as many as fit, and the headers of blocks between them.
  void put_in_blocks(Bytes bytes, std::uint64_t begin, std::uint64_t end) {
    while (!bytes.empty() && position < end) {
      if (position % kBlockBytes == 0) {
        append(bytes_of(encode(BlockHeader{position - begin, end - position})));
        position += kBlockHeaderBytes;
      }
      const std::uint64_t room = std::min(end - position, kBlockBytes - position % kBlockBytes);
      const Bytes here = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), room)));
      append(here);
      position += here.size();
      bytes = bytes.subspan(here.size());
    }
  }

  void append(Bytes bytes) {
    if (file) {
      file->append(bytes);
    } else {
      out->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }

  RecordOptions options;
  std::uint64_t position = kSignatureBytes;  ///< Where the next chunk begins.
  bool is_finished = false;
  bool has_failed = false;

  std::optional<io::ReplacingFile> file;
  std::string* out = nullptr;  ///< Without a file.

  // The chunk that records are added to.
  std::string sizes;
  std::string values;
  std::uint64_t records = 0;
  std::uint64_t filled = 0;  ///< Of options.chunk_bytes.
};

RecordWriter::RecordWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

RecordWriter::RecordWriter(const std::filesystem::path& path, RecordOptions options)
    : RecordWriter(create_records(io::posix_syscalls(), path, options)) {}

RecordWriter::RecordWriter(RecordWriter&&) noexcept = default;
RecordWriter& RecordWriter::operator=(RecordWriter&&) noexcept = default;
RecordWriter::~RecordWriter() = default;

RecordWriter RecordWriter::append_to(std::string& bytes, RecordOptions options) {
  return RecordWriter(std::make_unique<State>(options, bytes));
}

RecordWriter create_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                            const RecordOptions& options) {
  return RecordWriter(std::make_unique<RecordWriter::State>(options, syscalls, path));
}

// outlives: the caller keeps the writer and the record.
std::function<std::uint64_t()> prepare_write(RecordWriter& writer, std::string_view record) {
  RecordWriter::State& state = *writer.state_;
  const Bytes bytes = bytes_of(record);
  return [&state, bytes, ready = state.prepare(bytes)]() mutable {
    return state.write({&bytes, 1}, std::move(ready));
  };
}

std::uint64_t RecordWriter::write(std::span<const std::span<const std::byte>> record) {
  return record.empty() ? write(std::string_view()) : state_->write(record, std::nullopt);
}

std::uint64_t RecordWriter::write(std::string_view record) {
  const std::array<Bytes, 1> whole = {bytes_of(record)};
  return state_->write(whole, std::nullopt);
}

void RecordWriter::finish() {
  state_->finish();
}

}  // namespace cairn::records
