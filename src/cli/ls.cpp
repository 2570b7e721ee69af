// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/listing.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

void write_listed(JsonWriter& json, const store::FoundCheckpoint& each) {
  json.begin_object(JsonLayout::line).key("name").value(each.name).key("class").value(name(each.kind));
  if (!each.counts()) {
    json.key("why").value(each.note);
  } else if (each.problem.empty()) {
    json.key("committed").value(each.committed).key("checkpointables").value(each.checkpointables);
    json.key("bytes").value(each.bytes);
  } else {
    json.key("problem").value(each.problem);
  }
  json.end();
}

void write_checkpoints(JsonWriter json, const std::filesystem::path& path,
                       const std::vector<store::FoundCheckpoint>& checkpoints) {
  json.begin_object().key("path").value(path.string());
  for (const bool counts : {true, false}) {
    json.key(counts ? "checkpoints" : "others").begin_list();
    for (const store::FoundCheckpoint& each : checkpoints) {
      if (each.counts() == counts) {
        write_listed(json, each);
      }
    }
    json.end();
  }
  json.end();
}

std::string state_of(const store::FoundCheckpoint& listed) {
  const bool is_broken = listed.kind == store::EntryClass::committed && !listed.problem.empty();
  return listed.is_hidden ? "older generation" : is_broken ? "damaged" : std::string(name(listed.kind));
}

void print_checkpoints(Output& out, const std::filesystem::path& path,
                       const std::vector<store::FoundCheckpoint>& checkpoints) {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  for (const store::FoundCheckpoint& each : checkpoints) {
    bytes += each.bytes;
    count += each.counts() ? 1 : 0;
  }
  out.print("{}\n\n", printable(path.string()));
  const std::array<Column, 4> columns{
      {{"CHECKPOINT"}, {"COMMITTED"}, {"CHECKPOINTABLES", true}, {"SIZE", true}}};
  print_table(out, "", columns, [&](const RowVisitor& row) {
    for (const store::FoundCheckpoint& each : checkpoints) {
      if (each.counts() && each.problem.empty()) {
        row({printable(each.name), printable(each.committed), count_text(each.checkpointables),
             size_text(each.bytes)});
      } else {
        row({printable(each.name), state_of(each), "-", "-"});
      }
    }
    row({"total", count_text(count, "checkpoint"), "", size_text(bytes)});
  });
}

/// Tells of the first damaged checkpoint on standard error: the exit status.
int judge(const std::vector<store::FoundCheckpoint>& checkpoints, Output& out) {
  const auto damaged = std::find_if(checkpoints.begin(), checkpoints.end(),
                                    [](const store::FoundCheckpoint& each) { return !each.problem.empty(); });
  if (damaged == checkpoints.end()) {
    return 0;
  }
  out.flush();
  complain(damaged->problem);
  return 1;
}

void write_items(JsonWriter json, const CheckpointMetadata& metadata, bool lists_arrays) {
  json.begin_object();
  write_origin(json, metadata);
  json.key("checkpointables").begin_object();
  for (const auto& [name, item] : metadata) {
    json.key(name).begin_object(lists_arrays ? JsonLayout::block : JsonLayout::line);
    const ArrayEntries entries = arrays(item);
    json.key("handler").value(item.handler_id).key("array_count").value(entries.size());
    json.key("bytes").value(item.bytes);
    if (const std::string problem = problem_text(item); !problem.empty()) {
      json.key("problem").value(problem);
    }
    if (lists_arrays) {
      write_arrays(json, entries);
    }
    json.end();
  }
  json.end().end();
}

void print_items(Output& out, const CheckpointMetadata& metadata) {
  std::uint64_t array_count = 0;
  std::vector<Row> rows;
  for (const auto& [name, item] : metadata) {
    const std::size_t count = arrays(item).size();
    array_count += count;
    rows.push_back({printable(name), printable(item.handler_id), count == 0 ? "-" : count_text(count),
                    size_text(item.bytes)});
  }
  rows.push_back({"total", count_text(metadata.items.size(), "checkpointable"), count_text(array_count),
                  size_text(total_bytes(metadata))});
  const std::array<Column, 4> columns{{{"CHECKPOINTABLE"}, {"HANDLER"}, {"ARRAYS", true}, {"SIZE", true}}};
  print_table(out, "", columns,
              [&rows](const RowVisitor& row) { std::for_each(rows.begin(), rows.end(), row); });
}

void print_all_arrays(Output& out, const CheckpointMetadata& metadata) {
  const std::array<Column, 4> columns{{{"ARRAY"}, {"DTYPE"}, {"SHAPE"}, {"SIZE", true}}};
  out.write("\n");
  print_table(out, "", columns, [&](const RowVisitor& row) {
    for (const auto& [name, item] : metadata) {
      const ArrayEntries entries = arrays(item);
      for (const ArrayEntry& array : entries) {
        row({printable(array.name.empty() ? name : fmt::format("{}/{}", name, array.name)),
             std::string(cairn::name(array.dtype)), to_string(array.shape), size_text(array.bytes)});
      }
    }
  });
}

}  // namespace

int ls(const Arguments& arguments, Output& out) {
  CheckpointMetadata metadata;
  try {
    metadata = describe(arguments.path);
  } catch (const Error& error) {
    std::error_code ignored;
    if (error.code() != Errc::not_committed || !std::filesystem::is_directory(arguments.path, ignored)) {
      throw;
    }
    const std::vector<store::FoundCheckpoint> checkpoints = find_checkpoints(arguments.path);
    if (checkpoints.empty() && !may_be_root(arguments.path)) {
      throw;
    }
    if (arguments.is_json) {
      write_checkpoints(json_to(out), arguments.path, checkpoints);
    } else {
      print_checkpoints(out, arguments.path, checkpoints);
    }
    return judge(checkpoints, out);
  }
  if (arguments.is_json) {
    write_items(json_to(out), metadata, arguments.lists_arrays);
    return judge(metadata, out);
  }
  print_origin(out, metadata);
  out.write("\n");
  print_items(out, metadata);
  if (arguments.lists_arrays) {
    print_all_arrays(out, metadata);
  }
  return judge(metadata, out);
}

}  // namespace cairn::cli
