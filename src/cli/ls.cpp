// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/listing.hpp"
#include "cli/paths.hpp"
#include "cli/rewound.hpp"
#include "cli/shards.hpp"
#include "cli/steps.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

/// Holds what lies in a directory of checkpoints, and which of it are steps.
struct Listed {
  std::vector<store::FoundCheckpoint> checkpoints;
  std::vector<StepFacts> steps;  ///< In the same order.
  std::vector<ForeignEntry> foreign;
  training::Rewound rewound;
  /// Names that are listed by the time of their commits, as readings of their numbers differ; nothing where names say
  /// the order.
  std::optional<std::pair<std::string, std::string>> in_doubt;

  [[nodiscard]] bool has_steps() const {
    return std::any_of(steps.begin(), steps.end(),
                       [](const StepFacts& each) { return each.step.has_value(); });
  }
};

void write_listed(JsonWriter& json, const store::FoundCheckpoint& each, const StepFacts& facts) {
  json.begin_object(JsonLayout::line).key("name").value(each.name).key("class").value(name(each.kind));
  if (!each.counts()) {
    json.key("why").value(each.note);
  } else if (each.problem.empty()) {
    json.key("committed").value(each.committed).key("checkpointables").value(each.checkpointables);
    json.key("bytes").value(each.bytes);
    if (facts.step) {
      json.key("step").value(*facts.step).key("is_pinned").value(facts.is_pinned);
    }
    write_metrics(json, facts.metrics);
  } else {
    json.key("problem").value(each.problem);
  }
  json.end();
}

void write_checkpoints(JsonWriter json, const std::filesystem::path& path, const Listed& listed) {
  json.begin_object().key("path").value(path.string());
  json.key("order").value(listed.in_doubt ? "by_time" : "by_name");
  for (const bool counts : {true, false}) {
    json.key(counts ? "checkpoints" : "others").begin_list();
    for (std::size_t i = 0; i < listed.checkpoints.size(); ++i) {
      if (listed.checkpoints[i].counts() == counts) {
        write_listed(json, listed.checkpoints[i], listed.steps[i]);
      }
    }
    json.end();
  }
  if (!listed.foreign.empty()) {
    json.key("foreign").begin_list();
    for (const ForeignEntry& each : listed.foreign) {
      json.begin_object(JsonLayout::line).key("name").value(each.name).key("layout").value(each.layout);
      json.key("bytes").value(each.bytes).end();
    }
    json.end();
  }
  write_rewound(json, listed.rewound);
  json.end();
}

std::string state_of(const store::FoundCheckpoint& listed) {
  const bool is_broken = listed.kind == store::EntryClass::committed && !listed.problem.empty();
  return listed.is_hidden ? "older generation" : is_broken ? "damaged" : std::string(name(listed.kind));
}

void print_checkpoints(Output& out, const std::filesystem::path& path, const Listed& listed) {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  for (const store::FoundCheckpoint& each : listed.checkpoints) {
    bytes += each.bytes;
    count += each.counts() ? 1 : 0;
  }
  std::string counted = count_text(count, "checkpoint");
  for (const ForeignEntry& each : listed.foreign) {
    bytes += each.bytes;
  }
  if (!listed.foreign.empty()) {
    counted += fmt::format(", {} of other programs", count_text(listed.foreign.size()));
  }
  out.print("{}\n\n", path_text(path));
  std::vector<Column> columns{{"CHECKPOINT"}, {"COMMITTED"}, {"CHECKPOINTABLES", true}, {"SIZE", true}};
  if (listed.has_steps()) {
    columns.insert(columns.end(), {{"PINNED"}, {"METRICS"}});
  }
  const auto add = [&](const RowVisitor& row, Row cells, const StepFacts& facts) {
    if (listed.has_steps()) {
      cells.insert(cells.end(), {facts.is_pinned ? "pinned" : "-", metrics_text(facts.metrics)});
    }
    row(cells);
  };
  print_table(out, "", columns, [&](const RowVisitor& row) {
    for (std::size_t i = 0; i < listed.checkpoints.size(); ++i) {
      const store::FoundCheckpoint& each = listed.checkpoints[i];
      if (each.counts() && each.problem.empty()) {
        add(row,
            {printable(each.name), printable(each.committed), count_text(each.checkpointables),
             size_text(each.bytes)},
            listed.steps[i]);
      } else {
        add(row, {printable(each.name), state_of(each), "-", "-"}, listed.steps[i]);
      }
    }
    for (const ForeignEntry& each : listed.foreign) {
      add(row, {printable(each.name), printable(each.layout), "-", size_text(each.bytes)}, StepFacts());
    }
    add(row, {"total", counted, "", size_text(bytes)}, StepFacts());
  });
  if (listed.in_doubt) {
    out.print(
        "\nin the order of their commits: '{}' is before '{}' where each run of digits is a number, as in "
        "versions, and "
        "behind it where numbers are decimal; --numbers apart or decimal lists by names\n",
        printable(listed.in_doubt->first), printable(listed.in_doubt->second));
  }
  print_rewound(out, listed.rewound);
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

/// Returns what is told of a checkpointable in its listing, which reads no objects.
std::vector<std::string> listed_notes(const ItemMetadata& item) {
  const Description description = item.description();
  std::vector<std::string> notes = notes_of(description);
  if (has_objects(description)) {
    notes.emplace_back("objects are not looked into: cairn inspect says what of them has no place in a tree");
  }
  return notes;
}

void write_items(JsonWriter json, const std::filesystem::path& path, const CheckpointMetadata& metadata,
                 bool lists_arrays) {
  json.begin_object();
  write_origin(json, path, metadata);
  json.key("checkpointables").begin_object();
  for (const auto& [name, item] : metadata) {
    json.key(name).begin_object(lists_arrays ? JsonLayout::block : JsonLayout::line);
    const ArrayEntries entries = arrays(item);
    json.key("handler").value(item.handler_id).key("array_count").value(entries.size());
    json.key("bytes").value(item.bytes);
    write_ranks(json, writers(item));
    if (const std::string problem = problem_text(item); !problem.empty()) {
      json.key("problem").value(problem);
    }
    if (lists_arrays) {
      write_arrays(json, item, entries, is_foreign(metadata), Parts::counted);
    }
    write_notes(json, listed_notes(item));
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
    if (metadata.world_size > 1) {
      rows.back().push_back(ranks_text(writers(item)));
    }
  }
  rows.push_back({"total", count_text(metadata.items.size(), "checkpointable"), count_text(array_count),
                  size_text(total_bytes(metadata))});
  std::vector<Column> columns{{"CHECKPOINTABLE"}, {"HANDLER"}, {"ARRAYS", true}, {"SIZE", true}};
  if (metadata.world_size > 1) {
    columns.push_back({"RANKS"});
  }
  print_table(out, "", columns,
              [&rows](const RowVisitor& row) { std::for_each(rows.begin(), rows.end(), row); });
}

bool has_divided_arrays(const CheckpointMetadata& metadata) {
  return std::any_of(metadata.begin(), metadata.end(),
                     [](const auto& named) { return are_divided(arrays(named.second)); });
}

void print_all_arrays(Output& out, const CheckpointMetadata& metadata) {
  const bool has_divided = has_divided_arrays(metadata);
  std::vector<Column> columns{{"ARRAY"}, {"DTYPE"}, {"SHAPE"}, {"SIZE", true}};
  if (has_divided) {
    columns.insert(columns.end(), {{"PARTS", true}, {"RANKS"}, {"LAYOUT"}});
  }
  out.write("\n");
  print_table(out, "", columns, [&](const RowVisitor& row) {
    for (const auto& [name, item] : metadata) {
      const ArrayEntries entries = arrays(item);
      for (const ArrayEntry& array : entries) {
        const std::string path = shown_path(array.name, is_foreign(metadata));
        Row cells{printable(path.empty() ? name : fmt::format("{}/{}", name, path)),
                  std::string(cairn::name(array.dtype)), to_string(array.shape),
                  size_or_alias_text(array, is_foreign(metadata))};
        if (has_divided) {
          cells.insert(cells.end(),
                       {count_text(array.parts), ranks_text(writers(item, array)), layout_text(array)});
        }
        row(cells);
      }
    }
  });
}

}  // namespace

int ls(const Arguments& arguments, Output& out) {
  CheckpointMetadata metadata;
  try {
    metadata = describe(arguments.path, arguments.layout);
  } catch (const Error& error) {
    if (!arguments.layout.empty() || !may_be_listed(arguments.path, error)) {
      throw;
    }
    Listed listed;
    std::optional<store::NumbersInNames> numbers;
    if (!arguments.numbers.empty()) {
      numbers = arguments.numbers == "apart" ? store::NumbersInNames::apart : store::NumbersInNames::decimal;
    }
    listed.checkpoints = find_checkpoints(arguments.path, numbers);
    listed.in_doubt = numbers ? std::nullopt : names_in_doubt(listed.checkpoints);
    listed.foreign = find_foreign(arguments.path);
    if (listed.checkpoints.empty() && listed.foreign.empty() && !may_be_root(arguments.path)) {
      throw;
    }
    listed.steps = step_facts(arguments.path, listed.checkpoints);
    listed.rewound = find_rewound(arguments.path);
    if (arguments.is_json) {
      write_checkpoints(json_to(out), arguments.path, listed);
    } else {
      print_checkpoints(out, arguments.path, listed);
    }
    return judge(listed.checkpoints, out);
  }
  if (arguments.is_json) {
    write_items(json_to(out), arguments.path, metadata, arguments.lists_arrays);
    return judge(metadata, out);
  }
  print_origin(out, arguments.path, metadata);
  out.write("\n");
  print_items(out, metadata);
  if (arguments.lists_arrays) {
    print_all_arrays(out, metadata);
  }
  for (const auto& [title, item] : metadata) {
    print_notes(out, listed_notes(item));
  }
  return judge(metadata, out);
}

}  // namespace cairn::cli
