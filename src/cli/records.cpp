// SPDX-License-Identifier: Apache-2.0
#include "cli/records.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/records/record_options.hpp"
#include "cairn/records/record_reader.hpp"
#include "cairn/records/record_writer.hpp"

#include "base/internal/packed.hpp"
#include "cli/describe.hpp"
#include "cli/paths.hpp"
#include "cli/text.hpp"
#include "io/internal/replacing_file.hpp"
#include "records/internal/records.hpp"

namespace cairn::cli {
namespace {

using records::RecordReader;

constexpr std::uint64_t kSignatureEnd = 64;

/// The chunks of a file, as their headers describe them.
struct FileChunks {
  std::vector<records::ChunkDescription> chunks;
  std::uint64_t record_count = 0;
  std::optional<std::uint64_t> last_position;
};

FileChunks file_chunks(RecordReader& reader) {
  FileChunks file;
  records::ChunkDescription& signature = file.chunks.emplace_back();
  signature.end = kSignatureEnd;
  signature.type = 's';
  while (const auto chunk = reader.next_chunk()) {
    file.record_count += chunk->records;
    if (chunk->records > 0) {
      file.last_position = chunk->begin + chunk->records - 1;
    }
    file.chunks.push_back(*chunk);
  }
  return file;
}

bool is_message(const std::filesystem::path& path) {
  return path.extension() == ".cpb";
}

/// Returns what the last record of a `.cpb` says; nothing of other files, and where the tool knows no messages.
std::optional<MessageChunks> message_of(const std::filesystem::path& path, RecordReader& reader) {
  if (!is_message(path)) {
    return std::nullopt;
  }
  const std::optional<records::LastRecord> last = records::read_last(reader);
  return chunks_of_record(last ? std::string_view(last->bytes) : std::string_view());
}

std::string codec_text(const records::ChunkDescription& chunk) {
  return chunk.codec ? std::string(records::name(*chunk.codec)) : "-";
}

void print_file_chunks(Output& out, const FileChunks& file) {
  const std::array<Column, 6> columns{
      {{"AT", true}, {"TYPE"}, {"RECORDS", true}, {"STORED", true}, {"UNPACKED", true}, {"CODEC"}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const records::ChunkDescription& chunk : file.chunks) {
      row({count_text(chunk.begin), std::string(1, chunk.type), count_text(chunk.records),
           size_text(chunk.data_bytes), size_text(chunk.decoded_bytes), codec_text(chunk)});
    }
  });
}

void write_file_chunks(JsonWriter& json, std::string_view key, const FileChunks& file) {
  json.key(key).begin_list();
  for (const records::ChunkDescription& chunk : file.chunks) {
    json.begin_object(JsonLayout::line).key("begin").value(chunk.begin);
    json.key("type").value(std::string_view(&chunk.type, 1)).key("data_size").value(chunk.data_bytes);
    json.key("records").value(chunk.records).key("decoded_size").value(chunk.decoded_bytes);
    if (chunk.codec) {
      // Riegeli's letters are the first ones of the names.
      const std::string_view name = records::name(*chunk.codec);
      json.key("compression").value(*chunk.codec == records::Codec::none ? "none" : name.substr(0, 1));
    }
    json.end();
  }
  json.end();
}

/// A record, where it was found.
struct FoundRecord {
  std::uint64_t position = 0;
  std::uint64_t bytes = 0;
};

/// Returns what is wrong with the places of chunks, a line for each.
std::vector<std::string> wrong_chunks(const MessageChunks& message, std::span<const FoundRecord> records) {
  std::vector<std::string> wrong;
  for (std::size_t i = 0; i < message.chunks.size(); ++i) {
    const MessageChunks::Chunk& chunk = message.chunks[i];
    const auto found = std::lower_bound(
        records.begin(), records.end(), chunk.offset,
        [](const FoundRecord& record, std::uint64_t offset) { return record.position < offset; });
    if (found == records.end() || found->position != chunk.offset) {
      wrong.push_back(fmt::format("chunk {} is to be a record at {}, where none is", i, chunk.offset));
    } else if (found->bytes != chunk.size) {
      wrong.push_back(fmt::format("chunk {} has {} bytes, and should have {}", i, found->bytes, chunk.size));
    }
  }
  return wrong;
}

void add_problem(store::VerifyReport& report, std::string text) {
  ++report.problem_count;
  store::VerifyProblem& problem = report.problems.emplace_back();
  problem.file = report.path.filename().string();
  problem.text = std::move(text);
}

}  // namespace

int inspect_records(const Arguments& arguments, Output& out) {
  RecordReader reader(arguments.path);
  const FileChunks file = file_chunks(reader);
  const std::optional<MessageChunks> message = message_of(arguments.path, reader);
  if (!arguments.is_json) {
    out.print("{}\n", path_text(arguments.path));
    out.print("  riegeli/records, {}, {}\n", size_text(reader.file_bytes()),
              count_text(file.record_count, "record"));
    if (message) {
      out.write("\nprotobuf message in chunks\n");
      print_chunks(out, *message);
      out.write("\n");
    }
    print_file_chunks(out, file);
    return 0;
  }
  JsonWriter json = json_to(out);
  json.begin_object().key("path").value(arguments.path.string()).key("size").value(reader.file_bytes());
  json.key("records").value(file.record_count).key("last_position");
  json.value(file.last_position ? JsonScalar(*file.last_position) : JsonScalar(nullptr));
  if (message) {
    write_chunks(json, *message);
  }
  write_file_chunks(json, message ? "file_chunks" : "chunks", file);
  json.end();
  return 0;
}

store::VerifyReport verify_records(const std::filesystem::path& path,
                                   const std::function<void(std::uint64_t)>& progress) {
  store::VerifyReport report;
  report.path = path;
  report.files = 1;
  try {
    RecordReader reader(path);
    std::vector<FoundRecord> found;  // Of a `.cpb`.
    for (std::string_view record; reader.next(record); progress(reader.position())) {
      report.bytes = reader.position();
      if (is_message(path)) {
        found.push_back({reader.position(), record.size()});
      }
    }
    report.bytes = reader.file_bytes();
    if (const std::optional<MessageChunks> message = message_of(path, reader)) {
      for (const std::string& text : wrong_chunks(*message, found)) {
        add_problem(report, fmt::format("{}: {}", path.string(), text));
      }
    }
  } catch (const Error& error) {
    if (error.code() != Errc::checksum_mismatch && error.code() != Errc::malformed_metadata) {
      throw;
    }
    add_problem(report, error.detail().starts_with(path.string())
                            ? error.what()
                            : fmt::format("{}: {}", path.string(), error.what()));
  }
  return report;
}

std::uint64_t export_records(const std::filesystem::path& source, const std::filesystem::path& target,
                             const Progress& progress) {
  RecordReader reader(source);
  io::ReplacingFile file(io::posix_syscalls(), target);
  std::uint64_t records = 0;
  for (std::string_view record; reader.next(record); ++records) {
    std::string size;
    put(size, std::uint64_t{record.size()});
    file.append(std::as_bytes(std::span(size)));
    file.append(std::as_bytes(std::span(record)));
    progress(reader.position(), reader.file_bytes());
  }
  progress(reader.file_bytes(), reader.file_bytes());
  file.publish();
  return records;
}

void export_chunks(const ItemMetadata& item, const MessageChunks& message, tools::VerifiedFile& file,
                   const std::filesystem::path& target, const Progress& progress) {
  records::RecordWriter writer(target);
  std::uint64_t total_bytes = 0;
  for (const MessageChunks::Chunk& chunk : message.chunks) {
    total_bytes += chunk.size;
  }
  std::uint64_t done_bytes = 0;
  std::vector<std::uint64_t> positions;
  std::string bytes;
  for (const MessageChunks::Chunk& chunk : message.chunks) {
    bytes.resize(chunk.size);
    file.read(chunk.offset, std::as_writable_bytes(std::span(bytes)));
    positions.push_back(writer.write(bytes));
    done_bytes += chunk.size;
    progress(done_bytes, total_bytes);
  }
  writer.write(record_of_chunks(item, positions));
  writer.finish();
}

}  // namespace cairn::cli
