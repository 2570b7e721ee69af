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

  std::uint64_t write(std::span<const Bytes> record) {
    require_usable("write");
    has_failed = true;  // Until it has not.
    std::uint64_t bytes = 0;
    for (const Bytes fragment : record) {
      bytes += fragment.size();
    }
    // As riegeli's writer does it, so that positions are the same.
    const std::uint64_t most = options.chunk_bytes;
    const std::uint64_t added = bytes + kRecordOverhead;
    if (records > 0 && (records == kMostRecordsOfChunk || added > most || filled > most - added)) {
      close_chunk();
    }
    const std::uint64_t its_position = position + records;
    append_varint(sizes, bytes);
    ++records;
    filled += added;
    const bool is_full = most < kRecordOverhead || filled > most - kRecordOverhead;
    if (is_full && records == 1) {
      write_chunk(record, bytes);  // From where it lies.
    } else {
      for (const Bytes fragment : record) {
        values.append(reinterpret_cast<const char*>(fragment.data()), fragment.size());
      }
      if (is_full) {
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

  void close_chunk() {
    const std::array<Bytes, 1> whole = {bytes_of(values)};
    write_chunk(whole, values.size());
  }

  /// Writes the chunk of the records whose `sizes` are there.
  void write_chunk(std::span<const Bytes> contents, std::uint64_t bytes) {
    const CodecTraits& codec = traits(options.codec);
    std::string head(1, codec.letter);
    std::string packed;
    std::vector<Bytes> data;
    if (codec.codec == Codec::none) {
      append_varint(head, sizes.size());
      head += sizes;
      data.push_back(bytes_of(head));
      data.insert(data.end(), contents.begin(), contents.end());
    } else {
      const std::array<Bytes, 1> all_sizes = {bytes_of(sizes)};
      append_varint(packed, sizes.size());
      codec.functions.pack(options, all_sizes, sizes.size(), packed);
      append_varint(head, packed.size());
      append_varint(packed, bytes);
      codec.functions.pack(options, contents, bytes, packed);
      data = {bytes_of(head), bytes_of(packed)};
    }
    ChunkHeader header;
    header.type = chunk_type::kSimple;
    header.records = records;
    header.decoded_bytes = bytes;
    for (const Bytes fragment : data) {
      header.data_bytes += fragment.size();
    }
    header.data_hash = hash(data);
    put_chunk(header, data);
    sizes.clear();
    values.clear();
    records = 0;
    filled = 0;
  }

  void put_chunk(const ChunkHeader& header, std::span<const Bytes> data) {
    static constexpr std::array<std::byte, 4096> kZeros{};
    const std::uint64_t begin = position;
    const std::optional<std::uint64_t> end = chunk_end(begin, header);
    if (!end) {
      throw Error(Errc::invalid_argument, "a file of records cannot be so large");
    }
    put_in_blocks(bytes_of(encode(header)), begin, *end);
    for (const Bytes fragment : data) {
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

std::uint64_t RecordWriter::write(std::span<const std::span<const std::byte>> record) {
  return record.empty() ? write(std::string_view()) : state_->write(record);
}

std::uint64_t RecordWriter::write(std::string_view record) {
  const std::array<Bytes, 1> whole = {bytes_of(record)};
  return state_->write(whole);
}

void RecordWriter::finish() {
  state_->finish();
}

}  // namespace cairn::records
