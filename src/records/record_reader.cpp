// SPDX-License-Identifier: Apache-2.0
#include "cairn/records/record_reader.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/limits.hpp"
#include "records/block_reader.hpp"
#include "records/codec.hpp"
#include "records/internal/records.hpp"
#include "records/layout.hpp"

namespace cairn::records {
namespace {

constexpr std::uint64_t kMostVarintBytes = 10;

const CodecTraits* codec_of(char letter) noexcept {
  const auto found = std::find_if(codecs().begin(), codecs().end(),
                                  [&](const CodecTraits& codec) { return codec.letter == letter; });
  return found == codecs().end() ? nullptr : &*found;
}

bool has_codec(char type) noexcept {
  return type == chunk_type::kSimple || type == chunk_type::kTransposed || type == chunk_type::kMetadata;
}

unsigned code_of(char letter) noexcept {
  return static_cast<unsigned char>(letter);
}

}  // namespace

struct RecordReader::State {
  State(BlockReader file_, ReaderOptions options_) : file(std::move(file_)), options(options_) {
    if (options.most_record_bytes == 0) {
      options.most_record_bytes = default_unpacked_bytes();
    }
  }

  [[nodiscard]] std::optional<std::string_view> take(std::string& alone_record) {
    if (index == records && !open(alone_record)) {
      return std::nullopt;
    }
    given = begin + index;
    const auto at = static_cast<std::size_t>(index++);
    if (records == 1) {
      records = index = 0;  // The caller may change it.
    }
    return values.substr(static_cast<std::size_t>(limits[at]),
                         static_cast<std::size_t>(limits[at + 1] - limits[at]));
  }

  void seek(std::uint64_t position) {
    if (position > file.file_bytes()) {
      file.fail(Errc::malformed_metadata, position, "the file ends before this position");
    }
    if (position >= begin && position - begin < records) {
      return go_to(begin, position - begin);
    }
    std::uint64_t found = position;
    if (position < file.file_bytes()) {
      const std::uint64_t block = position - position % kBlockBytes;
      const BlockHeader header = file.block_header(block);
      const std::uint64_t next = block + header.next_chunk;
      found = next <= position ? next : block - header.previous_chunk;
    }
    while (found < position) {
      const Chunk chunk = file.chunk_at(found);
      if (position - found < chunk.header.records) {
        return go_to(found, position - found);
      }
      if (position < chunk.end && chunk.header.records == 0) {
        break;
      }
      found = chunk.end;
    }
    go_to(found, 0);
  }

  [[nodiscard]] bool seek_to_last() {
    for (std::uint64_t limit = file.file_bytes(); limit > 0;) {
      const std::uint64_t block = (limit - 1) / kBlockBytes * kBlockBytes;
      const std::uint64_t first = block - file.block_header(block).previous_chunk;
      std::optional<Chunk> last;
      for (std::uint64_t at = first; at < limit;) {
        const Chunk chunk = file.chunk_at(at);
        if (chunk.header.records > 0) {
          last = chunk;
        }
        at = chunk.end;
        if (at > limit) {
          refuse(chunk, fmt::format("it ends behind {}, where another one begins", limit));
        }
      }
      if (last) {
        go_to(last->begin, last->header.records - 1);
        return true;
      }
      limit = first;
    }
    return false;
  }

  [[nodiscard]] std::optional<ChunkDescription> next_chunk() {
    if (next_begin == file.file_bytes()) {
      return std::nullopt;
    }
    Chunk chunk = file.chunk_at(next_begin);
    const ChunkHeader& header = chunk.header;
    ChunkDescription description{chunk.begin,       chunk.end,      header.type,
                                 header.data_bytes, header.records, header.decoded_bytes,
                                 std::nullopt};
    if (has_codec(header.type) && header.data_bytes > 0) {
      std::string letter;
      file.append(chunk, 1, letter);
      if (const CodecTraits* codec = codec_of(letter.front())) {
        description.codec = codec->codec;
      }
    }
    go_to(chunk.end, 0);
    return description;
  }

  BlockReader file;
  std::uint64_t given = 0;  ///< The position of the record that was given last.
  std::string alone;        ///< Of readers that are given views.

  ReaderOptions options;

 private:
  /// Goes on to the next chunk with a record that is not passed over. Returns false at the end of the file.
  [[nodiscard]] bool open(std::string& alone_record) {
    while (next_begin != file.file_bytes()) {
      if (records == 0 || begin != next_begin) {
        load(file.chunk_at(next_begin), alone_record);
      }
      next_begin = end;
      index = std::exchange(skip, 0);
      if (index < records) {
        return true;
      }
      index = records;
    }
    return false;
  }

  void go_to(std::uint64_t chunk_begin, std::uint64_t record) noexcept {
    next_begin = chunk_begin;
    skip = record;
    index = records;
  }

  /// Reads and verifies a chunk, and finds its records. One that is alone is put into `alone_record`.
  void load(Chunk chunk, std::string& alone_record) {
    records = index = 0;
    data.clear();
    check_header(chunk);
    if (!read_alone(chunk, alone_record)) {
      file.append(chunk, chunk.header.data_bytes - data.size(), data);
      check_hash(chunk, hash(bytes_of(data)));
      if (chunk.header.records > 0) {
        unpack(chunk, alone_record);
      }
    }
    file.verify_rest(chunk);
    begin = chunk.begin;
    end = chunk.end;
    records = chunk.header.records;
  }

  /// Refuses records that cannot be read. Chunks without records are passed over, whatever they are.
  void check_header(const Chunk& chunk) const {
    const ChunkHeader& header = chunk.header;
    if (header.records == 0) {
      return;
    }
    if (header.type == chunk_type::kTransposed) {
      file.fail(Errc::feature_missing, chunk.begin,
                "this is a transposed chunk, which this library does not read; write the file with riegeli's "
                "option "
                "transpose:false");
    }
    if (header.type == chunk_type::kSignature || header.type == chunk_type::kMetadata ||
        header.type == chunk_type::kPadding) {
      refuse(chunk, "a signature, metadata and padding have no records");
    }
    if (header.type != chunk_type::kSimple) {
      file.fail(Errc::unsupported_version, chunk.begin,
                fmt::format("a chunk of the unknown type {} has records", code_of(header.type)));
    }
    if (header.decoded_bytes > options.most_record_bytes) {
      refuse(chunk, fmt::format("its records are {} bytes, more than most_record_bytes, which is {}",
                                header.decoded_bytes, options.most_record_bytes));
    }
  }

  void check_hash(const Chunk& chunk, std::uint64_t found) const {
    if (found != chunk.header.data_hash) {
      file.fail(Errc::checksum_mismatch, chunk.begin, "the hash of the chunk's data is another");
    }
  }

  /// Reads a single record that is not packed to where it belongs. Returns false for all else; `data` has the first
  /// bytes of the chunk then.
  [[nodiscard]] bool read_alone(Chunk& chunk, std::string& record) {
    const std::uint64_t bytes = chunk.header.decoded_bytes;
    if (chunk.header.records != 1) {
      return false;
    }
    std::string size;
    append_varint(size, bytes);
    std::string head(1, traits(Codec::none).letter);
    append_varint(head, size.size());
    head += size;
    file.append(chunk, std::min<std::uint64_t>(chunk.header.data_bytes, head.size()), data);
    if (data != head || bytes != chunk.header.data_bytes - head.size()) {
      return false;
    }
    record.clear();
    file.append(chunk, bytes, record);
    const std::array<Bytes, 2> fragments = {bytes_of(head), bytes_of(record)};
    check_hash(chunk, hash(fragments));
    limits = {0, bytes};
    values = record;
    return true;
  }

  /// Finds the records in `data`, which is verified.
  void unpack(const Chunk& chunk, std::string& alone_record) {
    const ChunkHeader& header = chunk.header;
    std::string_view rest(data);
    if (rest.empty()) {
      refuse(chunk, "it has records and no data");
    }
    const CodecTraits* const codec = codec_of(rest.front());
    if (codec == nullptr) {
      file.fail(Errc::unsupported_version, chunk.begin,
                fmt::format("it is packed in the unknown way {}", code_of(rest.front())));
    }
    if (!is_built_in(codec->codec)) {
      file.fail(Errc::feature_missing, chunk.begin, missing(codec->codec));
    }
    rest.remove_prefix(1);
    const std::optional<std::uint64_t> bytes_of_sizes = take_varint(rest);
    if (!bytes_of_sizes || *bytes_of_sizes > rest.size()) {
      refuse(chunk, "the sizes of its records end behind it");
    }
    const std::string_view sizes = rest.substr(0, static_cast<std::size_t>(*bytes_of_sizes));
    std::string unpacked_sizes;
    find_records(chunk, unpacked(chunk, *codec, sizes, header.records, header.records * kMostVarintBytes,
                                 unpacked_sizes));
    values = unpacked(chunk, *codec, rest.substr(sizes.size()), header.decoded_bytes, header.decoded_bytes,
                      header.records == 1 ? alone_record : unpacked_values);
  }

  /// Returns what `packed` says: in `out`, or as it lies there. It is refused unless it has so many bytes.
  [[nodiscard]] std::string_view unpacked(const Chunk& chunk, const CodecTraits& codec,
                                          std::string_view packed, std::uint64_t least_bytes,
                                          std::uint64_t most_bytes, std::string& out) const {
    const bool is_plain = codec.codec == Codec::none;
    const std::optional<std::uint64_t> bytes = is_plain ? packed.size() : take_varint(packed);
    if (!bytes || *bytes < least_bytes || *bytes > most_bytes) {
      refuse(chunk, fmt::format("its {} records of {} bytes are said to have {} bytes where that cannot be",
                                chunk.header.records, chunk.header.decoded_bytes, bytes.value_or(0)));
    }
    if (is_plain) {
      return packed;
    }
    UnpackedBytes room(out, *bytes, packed.size());
    const bool is_right = codec.functions.unpack(bytes_of(packed), room);
    if (!room.finish() || !is_right) {
      refuse(chunk, fmt::format("what {} has packed is not right, or not {} bytes", codec.name, *bytes));
    }
    return out;
  }

  void find_records(const Chunk& chunk, std::string_view sizes) {
    limits.assign(1, 0);
    for (std::uint64_t i = 0; i < chunk.header.records; ++i) {
      const std::optional<std::uint64_t> size = take_varint(sizes);
      if (!size || *size > chunk.header.decoded_bytes - limits.back()) {
        refuse(chunk, fmt::format("the size of record {} is not one, or beyond those of all", i));
      }
      limits.push_back(limits.back() + *size);
    }
    if (limits.back() != chunk.header.decoded_bytes || !sizes.empty()) {
      refuse(chunk, "the sizes of its records are not what they have together");
    }
  }

  [[noreturn]] void refuse(const Chunk& chunk, std::string_view reason) const {
    file.fail(Errc::malformed_metadata, chunk.begin, reason);
  }

  std::uint64_t next_begin = kSignatureBytes;  ///< Of the chunk that is opened next.
  std::uint64_t skip = 0;                      ///< Records of it that are passed over.

  // The chunk that was loaded last.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t records = 0;  ///< 0: there is none, or its only record belongs to the caller.
  std::uint64_t index = 0;    ///< Of the record that is given next; `records`: another chunk is opened first.
  std::vector<std::uint64_t> limits;  ///< Where records begin in `values`, and where the last one ends.
  std::string_view values;
  std::string data;  ///< As it lies in the file, without headers of blocks.
  std::string unpacked_values;
};

RecordReader::RecordReader(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->file.check_signature();
}

RecordReader::RecordReader(const std::filesystem::path& path, ReaderOptions options)
    : RecordReader(open_records(io::posix_syscalls(), path, options)) {}

RecordReader::RecordReader(std::span<const std::byte> bytes, ReaderOptions options)
    : RecordReader(std::make_unique<State>(BlockReader(bytes), options)) {}

RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;
RecordReader::~RecordReader() = default;

RecordReader open_records(io::Syscalls& syscalls, const std::filesystem::path& path, ReaderOptions options) {
  return RecordReader(std::make_unique<RecordReader::State>(BlockReader(syscalls, path), options));
}

RecordReader another_reader(const RecordReader& reader, ReaderOptions options) {
  return RecordReader(std::make_unique<RecordReader::State>(reader.state_->file, options));
}

std::optional<LastRecord> read_last(const RecordReader& file) {
  constexpr std::uint64_t kLeastBound = std::uint64_t{1} << 20;
  constexpr std::uint64_t kOftenPacked = 16;
  constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
  const std::uint64_t of_file = std::min(file.file_bytes(), kMostBytes) * kOftenPacked;
  const std::uint64_t most = std::min(std::max(kLeastBound, of_file), kMostBytes);
  ReaderOptions options;
  options.most_record_bytes = most;
  RecordReader reader = another_reader(file, options);
  if (!reader.seek_to_last()) {
    return std::nullopt;
  }
  if (const auto chunk = reader.next_chunk();
      chunk->records > 1) {  // The others are bounded only together with it.
    options.most_record_bytes = kMostBytes;
    reader = another_reader(file, options);
  }
  LastRecord last;
  if (!reader.seek_to_last() || !reader.next(last.bytes)) {
    return std::nullopt;
  }
  last.position = reader.position();
  if (last.bytes.size() > most) {
    throw Error(Errc::malformed_metadata,
                fmt::format("the last record has {} bytes; {} are allowed in a file of {}", last.bytes.size(),
                            most, file.file_bytes()));
  }
  return last;
}

bool RecordReader::next(std::string& record) {
  const std::optional<std::string_view> taken = state_->take(record);
  if (taken && taken->data() != record.data()) {
    record.assign(*taken);
  }
  return taken.has_value();
}

bool RecordReader::next(std::string_view& record) {
  const std::optional<std::string_view> taken = state_->take(state_->alone);
  record = taken.value_or(std::string_view());
  return taken.has_value();
}

std::uint64_t RecordReader::position() const noexcept {
  return state_->given;
}

void RecordReader::seek(std::uint64_t position) {
  state_->seek(position);
}

bool RecordReader::seek_to_last() {
  return state_->seek_to_last();
}

std::uint64_t RecordReader::file_bytes() const noexcept {
  return state_->file.file_bytes();
}

std::optional<ChunkDescription> RecordReader::next_chunk() {
  return state_->next_chunk();
}

}  // namespace cairn::records
