// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <array>
#include <fstream>

#include <fmt/format.h>

#include "base/internal/printable.hpp"
#include "cli/proto.hpp"
#include "cli/records.hpp"
#include "cli/text.hpp"
#include "records/internal/signature.hpp"

namespace cairn::cli {

bool is_records_file(const std::filesystem::path& path) {
  std::error_code ignored;
  std::array<char, records::kFileBegin.size()> begin{};
  return std::filesystem::is_regular_file(path, ignored) &&
         std::ifstream(path, std::ios::binary).read(begin.data(), begin.size()) &&
         std::string_view(begin.data(), begin.size()) == records::kFileBegin;
}

void print_chunks(Output& out, const MessageChunks& message) {
  std::uint64_t bytes = 0;
  for (const MessageChunks::Chunk& chunk : message.chunks) {
    bytes += chunk.size;
  }
  out.print("  {}, {}; splitter version {}, join version {}\n", count_text(message.chunks.size(), "chunk"),
            size_text(bytes), message.splitter_version, message.join_version);
  const std::array<Column, 4> columns{{{"CHUNK", true}, {"OF"}, {"TYPE"}, {"SIZE", true}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (std::size_t i = 0; i < message.chunks.size(); ++i) {
      const MessageChunks::Chunk& chunk = message.chunks[i];
      const std::optional<std::string> path = message.path_of(i);
      const std::string of = !path ? "nothing" : path->empty() ? "the message itself" : printable(*path);
      row({count_text(i), of, chunk.is_message ? "message" : "bytes", size_text(chunk.size)});
    }
  });
}

void write_chunks(JsonWriter& json, const MessageChunks& message) {
  json.key("version").begin_object(JsonLayout::line).key("splitter_version").value(message.splitter_version);
  json.key("join_version").value(message.join_version);
  if (!message.bad_consumers.empty()) {
    json.key("bad_consumers").begin_list();
    for (const std::int32_t version : message.bad_consumers) {
      json.value(version);
    }
    json.end();
  }
  json.end().key("chunks").begin_list();
  for (std::size_t i = 0; i < message.chunks.size(); ++i) {
    const MessageChunks::Chunk& chunk = message.chunks[i];
    json.begin_object(JsonLayout::line).key("type").value(chunk.is_message ? "MESSAGE" : "BYTES");
    json.key("offset").value(chunk.offset).key("size").value(chunk.size);
    if (const std::optional<std::string> path = message.path_of(i)) {
      json.key("path").value(*path);
    }
    json.end();
  }
  json.end().key("chunked_message").value(message.tree);
}

}  // namespace cairn::cli
