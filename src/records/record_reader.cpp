// SPDX-License-Identifier: Apache-2.0
#include "cairn/records/record_reader.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "records/block_reader.hpp"
#include "records/codec.hpp"
#include "records/internal/records.hpp"
#include "records/layout.hpp"

namespace cairn::records {
namespace {

constexpr std::uint64_t kMostVarintBytes = 10;

const CodecTraits* codec_of(char letter) noexcept {
  for (const CodecTraits& codec : codecs()) {
    if (codec.letter == letter) {
      return &codec;
    }
  }
  return nullptr;
}

bool has_codec(char type) noexcept {
  return type == chunk_type::kSimple || type == chunk_type::kTransposed || type == chunk_type::kMetadata;
}

}  // namespace

struct RecordReader::State {
  enum class Opened { nothing, alone, several };

  State(BlockReader file_, ReaderOptions options_) : file(std::move(file_)), options(options_) {}

  void check_signature();
  [[nodiscard]] std::optional<std::string_view> take(std::string& alone);
  void seek(std::uint64_t position);
  [[nodiscard]] bool seek_to_last();
  [[nodiscard]] std::optional<ChunkDescription> next_chunk();

  BlockReader file;
  std::uint64_t given = 0;  ///< The position of the record that was given last.

 private:
  /// A chunk whose header has been read, and what its data is read with.
  struct ChunkInFile {
    ChunkRange range;
    std::uint64_t position = 0;  ///< Behind what has been read.
    ChunkHeader header;

    [[nodiscard]] std::uint64_t begin() const { return range.begin; }
    [[nodiscard]] std::uint64_t end() const { return *range.end; }
  };

  [[nodiscard]] ChunkInFile chunk_at(std::uint64_t chunk_begin) const;
  [[nodiscard]] std::uint64_t begin_of_chunk_around(std::uint64_t block) const;
  void check_type(const ChunkInFile& chunk) const;
  void close() noexcept;
  [[nodiscard]] Opened open(std::string& alone);
  void read_data(ChunkInFile& chunk);
  [[nodiscard]] bool read_alone(ChunkInFile& chunk, std::string& alone);
  [[nodiscard]] Opened unpack(const ChunkInFile& chunk, std::string& alone);
  [[nodiscard]] std::string_view unpacked(const ChunkInFile& chunk, const CodecTraits& codec,
                                          std::string_view packed, std::uint64_t least_bytes,
                                          std::uint64_t most_bytes, std::string& out) const;
  void check_sizes(const ChunkInFile& chunk, std::string_view sizes) const;
  void check_decoded(const ChunkInFile& chunk) const;
  void pass_over(std::uint64_t count);
  [[noreturn]] void refuse(const ChunkInFile& chunk, std::string_view reason) const {
    file.fail(Errc::malformed_metadata, chunk.begin(), reason);
  }

  ReaderOptions options;
  std::uint64_t next_begin = kSignatureBytes;  ///< Of the chunk that is opened next.
  std::uint64_t skip = 0;                      ///< Records of it that are passed over.
  bool is_sought = false;                      ///< Since a record was given.

  // The chunk that is open: several records, of which some have been given. A record that was alone is not kept.
  std::uint64_t begin = 0;
  std::uint64_t records = 0;
  std::uint64_t index = 0;
  std::string_view all_sizes;
  std::string_view all_values;
  std::string_view sizes_left;
  std::string_view values_left;

  std::string data;  ///< As the chunk lies in the file, without headers of blocks.
  std::string unpacked_sizes;
  std::string unpacked_values;

 public:
  std::string alone;  ///< Of readers that are given views.
};

RecordReader::State::ChunkInFile RecordReader::State::chunk_at(std::uint64_t chunk_begin) const {
  ChunkInFile chunk;
  chunk.range.begin = chunk_begin;
  chunk.header = file.chunk_header(chunk.range, chunk.position);
  return chunk;
}

void RecordReader::State::check_signature() {
  if (file.file_bytes() < kSignatureBytes) {
    file.fail(Errc::malformed_metadata, 0, "the file is too short for a riegeli/records file");
  }
  try {
    const ChunkInFile chunk = chunk_at(0);
    if (chunk.header.type == chunk_type::kSignature) {
      check_type(chunk);
      return;
    }
  } catch (const Error& error) {
    if (error.code() != Errc::checksum_mismatch && error.code() != Errc::malformed_metadata) {
      throw;
    }
  }
  file.fail(Errc::malformed_metadata, 0, "this is not a riegeli/records file: the signature is missing");
}

void RecordReader::State::check_type(const ChunkInFile& chunk) const {
  const ChunkHeader& header = chunk.header;
  switch (header.type) {
    case chunk_type::kSimple:
      return;
    case chunk_type::kSignature:
      if (header.data_bytes > 0 || header.records > 0 || header.decoded_bytes > 0) {
        refuse(chunk, "a signature has neither data nor records");
      }
      return;
    case chunk_type::kMetadata:
    case chunk_type::kPadding:
      if (header.records > 0) {
        refuse(chunk, "metadata and padding have no records");
      }
      return;
    case chunk_type::kTransposed:
      if (header.records > 0) {
        file.fail(Errc::feature_missing, chunk.begin(),
                  "this is a transposed chunk, which this library does not read");
      }
      return;
    default:
      if (header.records > 0) {
        file.fail(Errc::unsupported_version, chunk.begin(),
                  fmt::format("a chunk of the unknown type {} has records",
                              static_cast<unsigned>(static_cast<unsigned char>(header.type))));
      }
  }
}

void RecordReader::State::close() noexcept {
  records = 0;
  index = 0;
}

void RecordReader::State::check_decoded(const ChunkInFile& chunk) const {
  if (chunk.header.decoded_bytes > options.most_record_bytes) {
    refuse(chunk, fmt::format("its records are {} bytes, more than most_record_bytes, which is {}",
                              chunk.header.decoded_bytes, options.most_record_bytes));
  }
}

RecordReader::State::Opened RecordReader::State::open(std::string& alone_record) {
  close();
  while (next_begin != file.file_bytes()) {
    ChunkInFile chunk = chunk_at(next_begin);
    check_type(chunk);
    Opened opened = Opened::nothing;
    data.clear();
    if (chunk.header.records == 0) {
      read_data(chunk);
    } else {
      check_decoded(chunk);
      if (read_alone(chunk, alone_record)) {
        opened = Opened::alone;
      } else {
        read_data(chunk);
        opened = unpack(chunk, alone_record);
      }
    }
    file.verify_rest(chunk.range, chunk.position);
    begin = next_begin;
    next_begin = chunk.end();
    const std::uint64_t passed = std::exchange(skip, 0);
    if (opened == Opened::several) {
      records = chunk.header.records;
      sizes_left = all_sizes;
      values_left = all_values;
      pass_over(passed);
    }
    if (opened != Opened::nothing) {
      return opened;
    }
  }
  return Opened::nothing;
}

/// Reads what is left of the chunk to `data`, and verifies it.
void RecordReader::State::read_data(ChunkInFile& chunk) {
  chunk.position = file.append(chunk.range, chunk.position, chunk.header.data_bytes - data.size(), data);
  if (hash(bytes_of(data)) != chunk.header.data_hash) {
    file.fail(Errc::checksum_mismatch, chunk.begin(), "the hash of the chunk's data is another");
  }
}

/// Reads a single record that is not packed to where it belongs. Returns false for other chunks, and for what is
/// malformed; `data` has the first bytes of the chunk then.
bool RecordReader::State::read_alone(ChunkInFile& chunk, std::string& record) {
  if (chunk.header.records != 1) {
    return false;
  }
  const std::uint64_t head_bytes = std::min(chunk.header.data_bytes, 1 + 2 * kMostVarintBytes);
  chunk.position = file.append(chunk.range, chunk.position, head_bytes, data);
  std::string_view rest(data);
  if (!rest.starts_with(traits(Codec::none).letter)) {
    return false;
  }
  rest.remove_prefix(1);
  const std::optional<std::uint64_t> bytes_of_sizes = take_varint(rest);
  if (!bytes_of_sizes || *bytes_of_sizes > rest.size()) {
    return false;
  }
  std::string_view size = rest.substr(0, static_cast<std::size_t>(*bytes_of_sizes));
  rest.remove_prefix(size.size());
  const std::size_t before = data.size() - rest.size();
  if (take_varint(size) != chunk.header.decoded_bytes || !size.empty() ||
      before + chunk.header.decoded_bytes != chunk.header.data_bytes) {
    return false;
  }
  record.assign(rest);
  chunk.position = file.append(chunk.range, chunk.position, chunk.header.decoded_bytes - rest.size(), record);
  const std::array<Bytes, 2> fragments = {bytes_of(data).first(before), bytes_of(record)};
  if (hash(fragments) != chunk.header.data_hash) {
    file.fail(Errc::checksum_mismatch, chunk.begin(), "the hash of the chunk's data is another");
  }
  return true;
}

/// Finds the records in `data`, which is verified. One alone is put into `record`.
RecordReader::State::Opened RecordReader::State::unpack(const ChunkInFile& chunk, std::string& record) {
  const ChunkHeader& header = chunk.header;
  std::string_view rest(data);
  if (rest.empty()) {
    refuse(chunk, "it has records and no data");
  }
  const CodecTraits* codec = codec_of(rest.front());
  if (codec == nullptr) {
    file.fail(Errc::unsupported_version, chunk.begin(),
              fmt::format("it is packed in the unknown way {}",
                          static_cast<unsigned>(static_cast<unsigned char>(rest.front()))));
  }
  if (!is_built_in(codec->codec)) {
    file.fail(Errc::feature_missing, chunk.begin(), missing(*codec));
  }
  rest.remove_prefix(1);
  const std::optional<std::uint64_t> bytes_of_sizes = take_varint(rest);
  if (!bytes_of_sizes || *bytes_of_sizes > rest.size()) {
    refuse(chunk, "the sizes of its records end behind it");
  }
  const auto packed_sizes = rest.substr(0, static_cast<std::size_t>(*bytes_of_sizes));
  all_sizes = unpacked(chunk, *codec, packed_sizes, header.records, header.records * kMostVarintBytes,
                       unpacked_sizes);
  check_sizes(chunk, all_sizes);
  const bool is_alone = header.records == 1;
  all_values = unpacked(chunk, *codec, rest.substr(packed_sizes.size()), header.decoded_bytes,
                        header.decoded_bytes, is_alone ? record : unpacked_values);
  if (is_alone && codec->codec == Codec::none) {
    record.assign(all_values);
  }
  return is_alone ? Opened::alone : Opened::several;
}

/// Returns what `packed` says: in `out`, or as it lies there. It is refused unless it has so many bytes.
std::string_view RecordReader::State::unpacked(const ChunkInFile& chunk, const CodecTraits& codec,
                                               std::string_view packed, std::uint64_t least_bytes,
                                               std::uint64_t most_bytes, std::string& out) const {
  const std::optional<std::uint64_t> bytes =
      codec.codec == Codec::none ? std::optional<std::uint64_t>(packed.size()) : take_varint(packed);
  if (!bytes || *bytes < least_bytes || *bytes > most_bytes) {
    refuse(chunk, fmt::format("its {} records of {} bytes are said to have {} bytes where that cannot be",
                              chunk.header.records, chunk.header.decoded_bytes, bytes.value_or(0)));
  }
  if (codec.codec == Codec::none) {
    return packed;
  }
  UnpackedBytes room(out, *bytes, packed.size());
  const bool is_right = codec.functions.unpack(bytes_of(packed), room);
  if (!room.finish() || !is_right) {
    refuse(chunk, fmt::format("what {} has packed is not right, or not {} bytes", codec.name, *bytes));
  }
  return out;
}

void RecordReader::State::check_sizes(const ChunkInFile& chunk, std::string_view sizes) const {
  std::uint64_t left = chunk.header.decoded_bytes;
  for (std::uint64_t i = 0; i < chunk.header.records; ++i) {
    const std::optional<std::uint64_t> size = take_varint(sizes);
    if (!size || *size > left) {
      refuse(chunk, fmt::format("the size of record {} is not one, or beyond those of all", i));
    }
    left -= *size;
  }
  if (left > 0 || !sizes.empty()) {
    refuse(chunk, "the sizes of its records are not what they have together");
  }
}

void RecordReader::State::pass_over(std::uint64_t count) {
  for (; count > 0; --count) {
    values_left.remove_prefix(static_cast<std::size_t>(*take_varint(sizes_left)));
    ++index;
  }
}

std::optional<std::string_view> RecordReader::State::take(std::string& alone_record) {
  if (index == records) {
    const Opened opened = open(alone_record);
    if (opened == Opened::nothing) {
      return std::nullopt;
    }
    if (opened == Opened::alone) {
      is_sought = false;
      given = begin;
      return alone_record;
    }
  }
  is_sought = false;
  given = begin + index;
  const std::string_view record = values_left;
  pass_over(1);
  return record.substr(0, record.size() - values_left.size());
}

/// Where the chunk begins that the header of a block lies in, or in front of.
std::uint64_t RecordReader::State::begin_of_chunk_around(std::uint64_t block) const {
  const BlockHeader header = file.block_header(block);
  if (header.previous_chunk > block || header.next_chunk > file.file_bytes() - block) {
    file.fail(Errc::malformed_metadata, block,
              "the block's header says that its chunk lies outside the file");
  }
  return block - header.previous_chunk;
}

void RecordReader::State::seek(std::uint64_t position) {
  if (position > file.file_bytes()) {
    file.fail(Errc::malformed_metadata, position, "the file ends before this position");
  }
  if (position >= begin && position - begin < records) {
    if (position - begin < index) {
      index = 0;
      sizes_left = all_sizes;
      values_left = all_values;
    }
    pass_over(position - begin - index);
    is_sought = true;
    return;
  }
  std::uint64_t found = position;
  std::uint64_t passed = 0;
  if (position < file.file_bytes()) {
    const std::uint64_t block = position / kBlockBytes * kBlockBytes;
    found = begin_of_chunk_around(block);
    if (const std::uint64_t next = block + file.block_header(block).next_chunk; next <= position) {
      found = next;
    }
    for (bool is_found = false; !is_found;) {
      const ChunkInFile chunk = chunk_at(found);
      const std::uint64_t number = position - found;
      is_found = position < chunk.end() && (number < chunk.header.records || chunk.header.records == 0);
      passed = is_found && chunk.header.records > 0 ? number : 0;
      if (!is_found) {
        found = chunk.end();
        is_found = found > position;
      }
    }
  }
  close();
  next_begin = found;
  skip = passed;
  is_sought = true;
}

bool RecordReader::State::seek_to_last() {
  for (std::uint64_t limit = file.file_bytes(); limit > 0;) {
    const std::uint64_t first = begin_of_chunk_around((limit - 1) / kBlockBytes * kBlockBytes);
    std::uint64_t last_begin = 0;
    std::uint64_t last_records = 0;
    for (std::uint64_t at = first; at < limit;) {
      const ChunkInFile chunk = chunk_at(at);
      if (chunk.header.records > 0) {
        last_begin = at;
        last_records = chunk.header.records;
      }
      at = chunk.end();
      if (at > limit) {
        refuse(chunk, fmt::format("it ends behind {}, where another one begins", limit));
      }
    }
    if (last_records > 0) {
      close();
      next_begin = last_begin;
      skip = last_records - 1;
      is_sought = true;
      return true;
    }
    limit = first;
  }
  return false;
}

std::optional<ChunkDescription> RecordReader::State::next_chunk() {
  const std::uint64_t at = is_sought && records > 0 ? begin : next_begin;
  if (at == file.file_bytes()) {
    return std::nullopt;
  }
  ChunkInFile chunk = chunk_at(at);
  ChunkDescription description;
  description.begin = at;
  description.end = chunk.end();
  description.type = chunk.header.type;
  description.data_bytes = chunk.header.data_bytes;
  description.records = chunk.header.records;
  description.decoded_bytes = chunk.header.decoded_bytes;
  if (has_codec(chunk.header.type) && chunk.header.data_bytes > 0) {
    std::array<std::byte, 1> letter{};
    file.read(chunk.range, chunk.position, letter);
    if (const CodecTraits* codec = codec_of(static_cast<char>(letter[0]))) {
      description.codec = codec->codec;
    }
  }
  close();
  next_begin = chunk.end();
  skip = 0;
  is_sought = false;
  return description;
}

RecordReader::RecordReader(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->check_signature();
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
