// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
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
#include "cli/report.hpp"
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
};

// The columns of a listing of checkpoints, in the order of the cells of listed_cells. Where a terminal is too narrow
// those with high numbers fall out first: what a new column is worth is to be said here.
const std::vector<Column>& listed_columns() {
  static const std::vector<Column> columns{{"CHECKPOINT", false, "name"},
                                           {"", false, "class"},
                                           {"COMMITTED", false, "committed"},
                                           {"CHECKPOINTABLES", true, "checkpointables", 5},
                                           {"SIZE", true, "bytes"},
                                           {"TOOK", true, "duration_seconds", 3},
                                           {"RATE", true, "bytes_per_second", 4},
                                           {"GAP", true, "gap_seconds", 2},
                                           {"", false, "step"},
                                           {"PINNED", false, "is_pinned", 1},
                                           {"METRICS", false, "", 6},
                                           {"WHY", false, "why"},
                                           {"", false, "problem"},
                                           {"", false, "layout"}};
  return columns;
}

std::string state_of(const store::FoundCheckpoint& listed) {
  const bool is_broken = listed.kind == store::EntryClass::committed && !listed.problem.empty();
  return listed.is_hidden ? "older generation" : is_broken ? "damaged" : std::string(name(listed.kind));
}

using Seconds = std::chrono::duration<double>;

/// The time from one to the other; nothing where it is not known, or clocks were set back.
std::optional<Seconds> time_between(const std::optional<store::CommitTime>& begin,
                                    const std::optional<store::CommitTime>& end) {
  return begin && end && *begin <= *end ? std::optional<Seconds>(*end - *begin) : std::nullopt;
}

/// `before`: when the checkpoint before was committed.
std::vector<Cell> listed_cells(const store::FoundCheckpoint& each, const StepFacts& facts,
                               const std::optional<store::CommitTime>& before) {
  const auto told = [](const std::string& text) { return [text](JsonWriter& json) { json.value(text); }; };
  std::vector<Cell> cells{text_cell(each.name), {"", told(std::string(name(each.kind)))}};
  if (!each.counts() || !each.problem.empty()) {
    cells.resize(listed_columns().size());
    cells[2] = {state_of(each), nullptr, !each.problem.empty()};
    const std::string why = each.note.empty() ? each.problem : each.note;
    cells[11].text = printable(why);
    if (!each.counts()) {
      cells[11].json = told(why);
    }
    cells[12] = text_cell(each.problem);
    cells[12].text.clear();
    return cells;
  }
  const std::optional<Seconds> took = time_between(each.start_time, each.commit_time);
  Cell rate;
  if (took && took->count() > 0) {
    rate = size_cell(static_cast<std::uint64_t>(static_cast<double>(each.bytes) / took->count()));
    rate.text += "/s";
  }
  cells.insert(cells.end(),
               {text_cell(each.committed), count_cell(each.checkpointables), size_cell(each.bytes),
                duration_cell(took), std::move(rate), duration_cell(time_between(before, each.commit_time))});
  if (facts.step) {
    cells.insert(cells.end(), {number_cell(*facts.step), flag_cell(facts.is_pinned, "pinned")});
  } else {
    cells.resize(cells.size() + 2);
  }
  cells.push_back(metrics_cell(facts.metrics));
  return cells;
}

ReportTable table_of(const Listed& listed) {
  ReportTable table{listed_columns(), {"checkpoints", "others"}};
  if (!listed.foreign.empty()) {
    table.lists.emplace_back("foreign");
  }
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::optional<store::CommitTime> before;
  for (std::size_t i = 0; i < listed.checkpoints.size(); ++i) {
    const store::FoundCheckpoint& each = listed.checkpoints[i];
    table.rows.push_back(
        {each.counts() ? "checkpoints" : "others", listed_cells(each, listed.steps[i], before)});
    bytes += each.bytes;
    count += each.counts() ? 1 : 0;
    before = each.is_sound() ? each.commit_time : before;
  }
  for (const ForeignEntry& each : listed.foreign) {
    ReportRow row{"foreign", {text_cell(each.name), {}, {printable(each.layout)}, {}, size_cell(each.bytes)}};
    row.cells.resize(table.columns.size());
    row.cells.back() = text_cell(each.layout);
    table.rows.push_back(std::move(row));
    bytes += each.bytes;
  }
  std::string counted = count_text(count, "checkpoint");
  if (!listed.foreign.empty()) {
    counted += fmt::format(", {} of other programs", count_text(listed.foreign.size()));
  }
  table.rows.push_back({"", {{"total"}, {}, {counted}, {}, {size_text(bytes)}}, "", true, true});
  return table;
}

Report report_of(const std::filesystem::path& path, const Listed& listed) {
  Report report;
  report.line(path_text(path));
  report.member("path", text_cell(path.string()));
  report.member("order", text_cell(listed.in_doubt ? "by_time" : "by_name"));
  report.table(table_of(listed));
  if (listed.in_doubt) {
    report.line(fmt::format(
        "in the order of their commits: '{}' is before '{}' where each run of digits is a number, as in "
        "versions, and behind it where numbers are decimal; --numbers apart or decimal lists by names",
        printable(listed.in_doubt->first), printable(listed.in_doubt->second)));
  }
  add_rewound(report, listed.rewound);
  return report;
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

/// A table of the checkpointables.
ReportTable table_of(const CheckpointMetadata& metadata, bool lists_arrays) {
  ReportTable table{{{"CHECKPOINTABLE"},
                     {"HANDLER", false, "handler", 1},
                     {"ARRAYS", true, "array_count"},
                     {"SIZE", true, "bytes"},
                     {"RANKS", false, "", 2},
                     {"STATE", false, ""},
                     {"", false, "problem"},
                     {"", false, ""}},
                    {"checkpointables"}};
  table.by_name = true;
  table.layout = lists_arrays ? JsonLayout::block : JsonLayout::line;
  std::uint64_t array_count = 0;
  for (const auto& [name, item] : metadata) {
    const ArrayEntries entries = arrays(item);
    array_count += entries.size();
    const std::string problem = problem_text(item);
    Cell count = count_cell(entries.size());
    if (entries.empty()) {
      count.text.clear();
    }
    Cell ranks{ranks_text(writers(item)),
               [ranks = writers(item)](JsonWriter& json) { write_ranks(json, ranks); }};
    if (metadata.world_size == 1) {
      ranks.text.clear();
    }
    Cell told = text_cell(problem);
    told.text.clear();
    Cell listed;
    listed.json = [&item = item, &metadata, lists_arrays](JsonWriter& json) {
      if (lists_arrays) {
        json.key("arrays").begin_list();
        for (const ArrayEntry& array : arrays(item)) {
          write_array(json, item, array, is_foreign(metadata), Parts::counted);
        }
        json.end();
      }
      write_notes(json, listed_notes(item));
    };
    table.rows.push_back({"checkpointables",
                          {{printable(name)},
                           text_cell(item.handler_id),
                           std::move(count),
                           size_cell(item.bytes),
                           std::move(ranks),
                           {problem.empty() ? "" : "damaged", nullptr, !problem.empty()},
                           std::move(told),
                           std::move(listed)},
                          name});
  }
  table.rows.push_back({"",
                        {{"total"},
                         {count_text(metadata.items.size(), "checkpointable")},
                         {count_text(array_count)},
                         {size_text(total_bytes(metadata))}},
                        "",
                        true,
                        true});
  return table;
}

/// A table of all arrays, for people.
ReportTable table_of_arrays(const CheckpointMetadata& metadata) {
  ReportTable table{{{"ARRAY"},
                     {"DTYPE"},
                     {"SHAPE"},
                     {"SIZE", true},
                     {"PARTS", true, "", 3},
                     {"RANKS", false, "", 1},
                     {"LAYOUT", false, "", 2}},
                    {}};
  for (const auto& [name, item] : metadata) {
    const ArrayEntries entries = arrays(item);
    const bool are_in_parts = are_divided(entries);
    for (const ArrayEntry& array : entries) {
      const std::string path = shown_path(array.name, is_foreign(metadata));
      ReportRow row{"",
                    {{printable(path.empty() ? name : fmt::format("{}/{}", name, path))},
                     {std::string(dtype_text(array.dtype))},
                     {to_string(array.shape)},
                     {size_or_alias_text(array, is_foreign(metadata))}}};
      if (are_in_parts) {
        row.cells.insert(
            row.cells.end(),
            {{count_text(array.parts)}, {ranks_text(writers(item, array))}, {layout_text(array)}});
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace

int ls(const Arguments& arguments, Output& out) {
  CheckpointMetadata metadata;
  try {
    metadata = describe_with_files(arguments.path, arguments.layout);
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
    report_of(arguments.path, listed).answer(out, arguments.is_json);
    return judge(listed.checkpoints, out);
  }
  Report report;
  add_origin(report, arguments.path, metadata);
  report.table(table_of(metadata, arguments.lists_arrays));
  if (arguments.lists_arrays) {
    report.table(table_of_arrays(metadata));
  }
  for (const auto& [title, item] : metadata) {
    for (const std::string& note : listed_notes(item)) {
      report.line("note: " + printable(note));
    }
  }
  report.answer(out, arguments.is_json);
  return judge(metadata, out);
}

}  // namespace cairn::cli
