// SPDX-License-Identifier: Apache-2.0
#include "cairn/records/record_writer.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"

#include "io/internal/file.hpp"
#include "records/codec.hpp"
#include "records/internal/records.hpp"
#include "records/layout.hpp"
#include "records/output.hpp"

namespace cairn::records {
namespace {

constexpr std::uint64_t kPackedChunkBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kPlainChunkBytes = 4096;
/// What a record counts for in a chunk besides its bytes, so that empty ones fill it, too. Source: riegeli's writer.
constexpr std::uint64_t kRecordOverhead = 8;
constexpr std::size_t kMostKeptBytes = std::size_t{1} << 20;
constexpr std::size_t kManyBytes = 32768;

}  // namespace

FileOutput::FileOutput(io::Syscalls& syscalls, const std::filesystem::path& path)
    : file_(io::ReplacingFile::create(syscalls, path)), path_(path) {}

void FileOutput::append(Bytes bytes) {
  const bool is_many = bytes.size() >= kManyBytes;
  if (is_many || kept_.size() + bytes.size() > kMostKeptBytes) {
    write(bytes_of(kept_));
    kept_.clear();
  }
  if (is_many) {
    write(bytes);
  } else {
    kept_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

void FileOutput::write(Bytes bytes) {
  io::write_all(file_.file(), bytes, written_, path_);
  written_ += bytes.size();
}

void FileOutput::finish() {
  write(bytes_of(kept_));
  file_.publish();
}

struct RecordWriter::State {
  State(std::unique_ptr<Output> out_, const RecordOptions& options_);

  std::uint64_t write(std::span<const Bytes> record);
  void finish();

 private:
  void require_usable(std::string_view call) const;
  void close_chunk();
  void write_records(std::span<const Bytes> contents, std::uint64_t bytes);
  void write_chunk(const ChunkHeader& header, std::span<const Bytes> data);
  void put(Bytes bytes, std::uint64_t begin, std::uint64_t end);

  std::unique_ptr<Output> out;
  RecordOptions options;
  std::uint64_t chunk_bytes;
  std::uint64_t position = 0;  ///< Where the next chunk begins.
  bool is_finished = false;
  bool has_failed = false;

  // The chunk that records are added to.
  std::string sizes;
  std::string values;
  std::uint64_t records = 0;
  std::uint64_t filled = 0;  ///< Of chunk_bytes.
};

RecordWriter::State::State(std::unique_ptr<Output> out_, const RecordOptions& options_)
    : out(std::move(out_)),
      options(options_),
      chunk_bytes(options.chunk_bytes > 0        ? options.chunk_bytes
                  : options.codec == Codec::none ? kPlainChunkBytes
                                                 : kPackedChunkBytes) {
  ChunkHeader signature;
  signature.type = chunk_type::kSignature;
  signature.data_hash = hash(Bytes());
  write_chunk(signature, {});
}

void RecordWriter::State::require_usable(std::string_view call) const {
  if (is_finished) {
    throw Error(Errc::closed, std::string(call) + ": the file of records is finished");
  }
  if (has_failed) {
    throw Error(Errc::io_failure, std::string(call) + ": an earlier write of records failed");
  }
}

std::uint64_t RecordWriter::State::write(std::span<const Bytes> record) {
  require_usable("write");
  has_failed = true;  // Until it has not.
  std::uint64_t bytes = 0;
  for (const Bytes fragment : record) {
    bytes += fragment.size();
  }
  // As riegeli's writer does it, so that positions are the same.
  const std::uint64_t added = bytes + kRecordOverhead;
  if (records > 0 &&
      (records == kMostRecordsOfChunk || added > chunk_bytes || filled > chunk_bytes - added)) {
    close_chunk();
  }
  const std::uint64_t its_position = position + records;
  append_varint(sizes, bytes);
  ++records;
  filled += added;
  const bool is_full = chunk_bytes < kRecordOverhead || filled > chunk_bytes - kRecordOverhead;
  if (is_full && records == 1) {
    write_records(record, bytes);  // From where it lies.
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

void RecordWriter::State::close_chunk() {
  const std::array<Bytes, 1> together = {bytes_of(values)};
  write_records(together, values.size());
}

/// Writes the chunk of the records whose `sizes` are there.
void RecordWriter::State::write_records(std::span<const Bytes> contents, std::uint64_t bytes) {
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
  write_chunk(header, data);
  sizes.clear();
  values.clear();
  records = 0;
  filled = 0;
}

void RecordWriter::State::write_chunk(const ChunkHeader& header, std::span<const Bytes> data) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  const std::uint64_t begin = position;
  const std::optional<std::uint64_t> end = chunk_end(begin, header);
  if (!end) {
    throw Error(Errc::invalid_argument, "a file of records cannot be so large");
  }
  put(encode(header), begin, *end);
  for (const Bytes fragment : data) {
    put(fragment, begin, *end);
  }
  while (position < *end) {
    const std::uint64_t in_block = kBlockBytes - position % kBlockBytes;
    const std::uint64_t header_bytes = position % kBlockBytes == 0 ? kBlockHeaderBytes : 0;
    put(Bytes(kZeros).first(std::min({*end - position, in_block, std::uint64_t{kZeros.size()}}) -
                            header_bytes),
        begin, *end);
  }
}

/// Puts bytes of the chunk `[begin, end)`, and the headers of blocks between them.
void RecordWriter::State::put(Bytes bytes, std::uint64_t begin, std::uint64_t end) {
  while (!bytes.empty()) {
    if (position % kBlockBytes == 0) {
      out->append(encode(BlockHeader{position - begin, end - position}));
      position += kBlockHeaderBytes;
    }
    const Bytes here = bytes.first(static_cast<std::size_t>(
        std::min<std::uint64_t>(bytes.size(), kBlockBytes - position % kBlockBytes)));
    out->append(here);
    position += here.size();
    bytes = bytes.subspan(here.size());
  }
}

void RecordWriter::State::finish() {
  require_usable("finish");
  has_failed = true;
  if (records > 0) {
    close_chunk();
  }
  out->finish();
  has_failed = false;
  is_finished = true;
}

RecordWriter::RecordWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

RecordWriter::RecordWriter(const std::filesystem::path& path, RecordOptions options)
    : RecordWriter(create_records(io::posix_syscalls(), path, options)) {}

RecordWriter::RecordWriter(RecordWriter&&) noexcept = default;
RecordWriter& RecordWriter::operator=(RecordWriter&&) noexcept = default;
RecordWriter::~RecordWriter() = default;

RecordWriter RecordWriter::append_to(std::string& bytes, RecordOptions options) {
  check(options);
  return RecordWriter(std::make_unique<State>(std::make_unique<StringOutput>(bytes), options));
}

RecordWriter create_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                            const RecordOptions& options) {
  check(options);  // Before there is a file.
  return RecordWriter(
      std::make_unique<RecordWriter::State>(std::make_unique<FileOutput>(syscalls, path), options));
}

std::uint64_t RecordWriter::write(std::span<const std::span<const std::byte>> record) {
  return state_->write(record);
}

std::uint64_t RecordWriter::write(std::string_view record) {
  const std::array<Bytes, 1> whole = {bytes_of(record)};
  return state_->write(whole);
}

void RecordWriter::finish() {
  state_->finish();
}

}  // namespace cairn::records
