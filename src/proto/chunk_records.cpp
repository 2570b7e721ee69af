// SPDX-License-Identifier: Apache-2.0
#include "proto/chunk_records.hpp"

#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/records/record_options.hpp"
#include "cairn/records/record_reader.hpp"
#include "cairn/records/record_writer.hpp"

#include "proto/internal/add_element.hpp"
#include "records/internal/records.hpp"

namespace cairn::proto {
namespace {

using records::RecordReader;
using records::RecordWriter;

records::ReaderOptions reader_options(std::uint64_t most_record_bytes) {
  records::ReaderOptions options;
  options.most_record_bytes = most_record_bytes;
  return options;
}

class RiegeliRecords final : public ChunkRecords {
 public:
  explicit RiegeliRecords(RecordReader reader) : reader_(std::move(reader)) {}

  [[nodiscard]] std::unique_ptr<ChunkRecords> another(std::uint64_t most_record_bytes) const override {
    return std::make_unique<RiegeliRecords>(
        records::another_reader(reader_, reader_options(most_record_bytes)));
  }

  [[nodiscard]] bool read_last(std::string& record) override {
    return reader_.seek_to_last() && reader_.next(record);
  }

  [[nodiscard]] std::string_view read(std::uint64_t position) override {
    std::string_view record;
    reader_.seek(position);
    require_there(reader_.next(record), position);
    return record;
  }

  void read(std::uint64_t position, std::string& record) override {
    reader_.seek(position);
    require_there(reader_.next(record), position);
  }

 private:
  void require_there(bool is_read, std::uint64_t position) const {
    if (!is_read || reader_.position() != position) {
      throw Error(Errc::malformed_metadata, fmt::format("there is no record at {}", position));
    }
  }

  RecordReader reader_;
};

void write_all(RecordWriter writer, const SplitResult& split) {
  chunked::ChunkMetadata metadata;
  metadata.mutable_version()->set_splitter_version(1);
  *metadata.mutable_message() = split.chunked_message;
  std::string buffer;
  for (const Chunk& chunk : split.chunks) {
    chunked::ChunkInfo& info = add_element(*metadata.mutable_chunks());
    info.set_size(chunk.size_bytes());
    if (chunk.type() == nullptr) {
      info.set_type(chunked::ChunkInfo::BYTES);
      info.set_offset(writer.write(chunk.bytes()));
      continue;
    }
    buffer.resize(chunk.size_bytes());
    chunk.write(std::as_writable_bytes(std::span(buffer)));
    info.set_type(chunked::ChunkInfo::MESSAGE);
    info.set_offset(writer.write(buffer));
  }
  writer.write(metadata.SerializeAsString());
  writer.finish();
}

}  // namespace

std::unique_ptr<ChunkRecords> open_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                                           std::uint64_t most_record_bytes) {
  try {
    return std::make_unique<RiegeliRecords>(
        records::open_records(syscalls, path, reader_options(most_record_bytes)));
  } catch (const Error& error) {
    if (error.code() != Errc::not_found) {
      throw;
    }
    return nullptr;
  }
}

std::unique_ptr<ChunkRecords> open_records(std::string_view bytes, std::uint64_t most_record_bytes) {
  return std::make_unique<RiegeliRecords>(
      RecordReader(std::as_bytes(std::span(bytes)), reader_options(most_record_bytes)));
}

void write_records(io::Syscalls& syscalls, const std::filesystem::path& path, const SplitResult& split,
                   const WriteOptions& options) {
  write_all(records::create_records(syscalls, path, records::RecordOptions::parse(options.records)), split);
}

void write_records(std::string& bytes, const SplitResult& split, const WriteOptions& options) {
  write_all(RecordWriter::append_to(bytes, records::RecordOptions::parse(options.records)), split);
}

}  // namespace cairn::proto
