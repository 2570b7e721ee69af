// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cairn/tools/array_reader.hpp"

#include "base/internal/natural_order.hpp"
#include "base/internal/printable.hpp"
#include "cli/array_groups.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/document.hpp"
#include "cli/elements.hpp"
#include "cli/name_filter.hpp"
#include "cli/progress_bar.hpp"
#include "cli/proto.hpp"
#include "cli/records.hpp"
#include "cli/report.hpp"
#include "cli/shards.hpp"
#include "cli/text.hpp"
#include "tools/internal/checkpoint_view.hpp"

namespace cairn::cli {
namespace {

using tools::CheckpointView;

constexpr std::size_t kMostLines = 20;  // Of a document; `show` has all.
constexpr std::size_t kMostFiles = 4;   // Of a policy.

/// Which files a policy made: nothing where it made all.
std::string file_names(const std::vector<std::string>& files) {
  std::string names;
  for (std::size_t i = 0; i < std::min(files.size(), kMostFiles); ++i) {
    names += fmt::format("{}{}", i == 0 ? " (" : ", ", printable(files[i]));
  }
  if (files.size() > kMostFiles) {
    names += fmt::format(" and {} more", files.size() - kMostFiles);
  }
  return names.empty() ? names : names + ")";
}

void write_policies(JsonWriter& json, const std::vector<FilesOfPolicy>& policies) {
  if (policies.empty()) {
    return;
  }
  json.key("policies").begin_list();
  for (const FilesOfPolicy& one : policies) {
    json.begin_object().key("policy").value(one.policy);
    if (!one.files.empty()) {
      json.key("files").begin_list();
      for (const std::string& file : one.files) {
        json.value(file);
      }
      json.end();
    }
    json.end();
  }
  json.end();
}

void write_value(JsonWriter& json, const DescribedValue& described, bool is_foreign) {
  json.begin_object(JsonLayout::line).key("name").value(shown_path(described.name, is_foreign));
  json.key("kind").value(described.kind);
  const auto& value = described.value;
  if (const auto* text = std::get_if<std::string>(&value)) {
    json.key("value").value(*text);
  } else if (const auto* bytes = std::get_if<std::vector<std::byte>>(&value)) {
    json.key("bytes").value(bytes->size());
  } else if (const auto* number = std::get_if<double>(&value); number != nullptr && !std::isfinite(*number)) {
    json.key("value").value(value_text(described));  // JSON has no word for infinities and NaN.
  } else if (!std::holds_alternative<std::monostate>(value)) {
    json.key("value").raw(value_text(described));
  }
  json.end();
}

/// Writes what another program has saved and has no place in a tree.
void write_left_out(JsonWriter& json, const std::vector<DescribedValue>& left_out, bool is_foreign) {
  if (left_out.empty()) {
    return;
  }
  json.key("left_out").begin_list();
  for (const DescribedValue& one : left_out) {
    json.begin_object(JsonLayout::line).key("name").value(shown_path(one.name, is_foreign));
    json.key("why").value(one.kind).end();
  }
  json.end();
}

void write_files(JsonWriter& json, const ItemMetadata& item) {
  json.key("files").begin_list();
  for (const FileMetadata& file : item.files) {
    json.begin_object(JsonLayout::line).key("name").value(file.name).key("bytes").value(file.bytes);
    if (file.rank) {
      json.key("rank").value(std::uint64_t{*file.rank});
    }
    json.end();
  }
  json.end();
}

void print_left_out(Output& out, std::string_view title, const std::vector<DescribedValue>& left_out,
                    bool is_foreign) {
  const std::array<Column, 2> columns{{{"LEFT OUT"}, {"WHAT IT IS"}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const DescribedValue& one : left_out) {
      row({part_title(title, shown_path(one.name, is_foreign)), printable(one.kind)});
    }
  });
}

/// Describes a checkpointable, with the leaves of its objects. Where one of them cannot be read, they stay objects, and
/// the description says why.
Description described(const CheckpointView& checkpoint, const std::string& title, const ItemMetadata& item) {
  try {
    return checkpoint.description(title);
  } catch (const Error& error) {
    Description description = item.description();
    description.left_out.push_back({"", fmt::format("the leaves of objects: {}", error.detail()), {}});
    return description;
  }
}

/// The part of a checkpointable that is shown.
struct Shown {
  Description description;         ///< Whose values and what is left out are those that were asked for.
  std::vector<NamedArray> arrays;  ///< In the order in which they are stored.
  bool is_whole = true;            ///< Else without documents, chunks and files.
};

Shown shown_of(const CheckpointView& checkpoint, const std::string& title, const ItemMetadata& item,
               NameFilter& filter) {
  const bool is_foreign = checkpoint.is_foreign();
  Shown shown;
  shown.description = described(checkpoint, title, item);
  shown.is_whole = filter.takes(title, "");
  for (const ArrayEntry& array : shown.description.arrays) {
    const std::string path = shown_path(array.name, is_foreign);
    if (filter.takes(title, path)) {
      shown.arrays.push_back({path.empty() ? title : path, array});
    }
  }
  for (auto* const values : {&shown.description.values, &shown.description.left_out}) {
    std::erase_if(*values, [&](const DescribedValue& value) {
      return !filter.takes(title, shown_path(value.name, is_foreign));
    });
  }
  return shown;
}

/// Returns whether something of a checkpointable was asked for.
bool is_asked_for(const CheckpointView& checkpoint, const std::string& title, const ItemMetadata& item,
                  NameFilter& filter) {
  const bool is_foreign = checkpoint.is_foreign();
  bool is_taken = filter.takes(title, "");
  const Description description = described(checkpoint, title, item);
  for (const ArrayEntry& array : description.arrays) {
    is_taken |= filter.takes(title, shown_path(array.name, is_foreign));
  }
  for (const auto* const values : {&description.values, &description.left_out}) {
    for (const DescribedValue& value : *values) {
      is_taken |= filter.takes(title, shown_path(value.name, is_foreign));
    }
  }
  return is_taken;
}

/// Returns what arrays hold, in their order. Reads all of them, in bounded memory.
std::vector<ArrayStatistics> gather(const CheckpointView& checkpoint, const std::string& title,
                                    std::span<const NamedArray> arrays) {
  std::vector<std::string> names;
  for (const NamedArray& array : arrays) {
    names.emplace_back(array.entry.name);
  }
  if (names.empty()) {
    return {};
  }
  ProgressBar bar(stderr);
  return checkpoint.reader(title).statistics(
      names,
      [&bar](std::uint64_t done_bytes, std::uint64_t total_bytes) { bar.update(done_bytes, total_bytes); });
}

void write_item(JsonWriter& json, const CheckpointView& checkpoint, const std::string& title,
                const ItemMetadata& item, const Shown& shown, const Arguments& arguments) {
  const Description& description = shown.description;
  json.begin_object().key("handler").value(item.handler_id).key("bytes").value(item.bytes);
  const std::string problem = problem_text(item);
  if (!problem.empty()) {
    json.key("problem").value(problem);
  }
  if (!description.kind.empty()) {
    json.key("kind").value(description.kind);
  }
  if (!description.layout.empty()) {
    json.key("layout").value(description.layout);
  }
  write_policies(json, description.policies);
  std::vector<ArrayStatistics> statistics;
  if (arguments.has_statistics) {
    statistics = gather(checkpoint, title, shown.arrays);
  }
  json.key("arrays").begin_list();
  for (std::size_t i = 0; i < shown.arrays.size(); ++i) {
    write_array(json, item, shown.arrays[i].entry, checkpoint.is_foreign(), Parts::shown,
                statistics.empty() ? nullptr : &statistics[i]);
  }
  json.end();
  write_totals(json, shown.arrays, arguments.depth.value_or(1));
  json.key("values").begin_list();
  for (const DescribedValue& value : description.values) {
    write_value(json, value, checkpoint.is_foreign());
  }
  json.end();
  write_left_out(json, description.left_out, checkpoint.is_foreign());
  write_notes(json, description.problems);
  if (shown.is_whole) {
    if (const auto message = chunks_of(item)) {
      write_chunks(json, *message);
    }
    if (problem.empty()) {
      write_documents(json, checkpoint, title, description);
    }
    write_files(json, item);
  }
  json.end();
}

/// A table of arrays, folded into groups unless each was asked for.
void print_arrays(Output& out, std::span<const NamedArray> arrays, bool is_foreign, bool lists_each) {
  std::uint64_t bytes = 0;
  for (const NamedArray& array : arrays) {
    bytes += array.entry.alias_of.empty() ? array.entry.bytes : 0;
  }
  std::vector<ArrayGroup> groups;
  if (!lists_each) {
    groups = fold(arrays);
  }
  for (std::size_t i = 0; lists_each && i < arrays.size(); ++i) {
    groups.push_back({arrays[i].name, i, 1});
  }
  const std::array<Column, 4> columns{{{"ARRAY"}, {"DTYPE"}, {"SHAPE"}, {"SIZE", true}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const ArrayGroup& group : groups) {
      const ArrayEntry& first = arrays[group.first].entry;
      const bool is_one = group.count == 1;
      row({printable(group.name), std::string(dtype_text(first.dtype)),
           fmt::format("{}{}", is_one ? "" : count_text(group.count) + " x ", to_string(first.shape)),
           is_one ? size_or_alias_text(first, is_foreign) : size_text(group.count * first.bytes)});
    }
    row({"total", count_text(arrays.size(), "array"), "", size_text(bytes)});
  });
}

/// Totals, the largest `most` of them; all where it is 0.
void print_totals(Output& out, std::string_view title, std::vector<ArrayTotal> totals, std::size_t most) {
  const std::size_t left = most == 0 || totals.size() <= most ? 0 : totals.size() - most;
  if (left != 0) {
    std::stable_sort(totals.begin(), totals.end(),
                     [](const ArrayTotal& a, const ArrayTotal& b) { return a.bytes > b.bytes; });
    totals.resize(most);
  }
  const std::array<Column, 3> columns{{{std::string(title)}, {"ARRAYS", true}, {"SIZE", true}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const ArrayTotal& total : totals) {
      row({printable(total.name), count_text(total.count), size_text(total.bytes)});
    }
    if (left != 0) {
      row({fmt::format("and {} smaller", count_text(left)), "", ""});
    }
  });
}

void print_statistics(Output& out, std::span<const NamedArray> arrays,
                      const std::vector<ArrayStatistics>& statistics) {
  const std::array<Column, 6> columns{
      {{"HOLDS"}, {"MIN", true}, {"MAX", true}, {"MEAN", true}, {"NANS", true}, {"ZEROS", true}}};
  const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    auto next = statistics.begin();
    for (const NamedArray& array : arrays) {
      const ArrayStatistics& of = *next++;
      row({printable(array.name), or_dash(number_text(of.min, array.entry.dtype)),
           or_dash(number_text(of.max, array.entry.dtype)), of.mean ? fmt::format("{:.6g}", *of.mean) : "-",
           count_text(of.nans), count_text(of.zeros)});
    }
  });
}

/// The arrays that were divided: how, and where their parts lie.
void print_divisions(Output& out, const ItemMetadata& item, std::span<const NamedArray> arrays) {
  const auto for_each_divided = [&](const auto& visit) {
    for (const NamedArray& array : arrays) {
      if (is_divided(array.entry)) {
        visit(array.entry, printable(array.name));
      }
    }
  };
  if (std::none_of(arrays.begin(), arrays.end(),
                   [](const NamedArray& array) { return is_divided(array.entry); })) {
    return;
  }
  const std::array<Column, 4> columns{{{"DIVIDED"}, {"PARTS", true}, {"RANKS"}, {"LAYOUT"}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for_each_divided([&](const ArrayEntry& array, const std::string& name) {
      row({name, fmt::to_string(array.parts), ranks_text(writers(item, array)), layout_text(array)});
    });
  });
  const std::array<Column, 4> shard_columns{{{"SHARD"}, {"BOX"}, {"FILE"}, {"RANK", true}}};
  print_table(out, "  ", shard_columns, [&](const RowVisitor& row) {
    for_each_divided(
        [&](const ArrayEntry& array, const std::string& name) { print_shards(row, item, array, name); });
  });
}

void print_values(Output& out, std::string_view title, const std::vector<DescribedValue>& values,
                  bool is_foreign) {
  const std::array<Column, 3> columns{{{"VALUE"}, {"KIND"}, {""}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const DescribedValue& value : values) {
      row({part_title(title, shown_path(value.name, is_foreign)), printable(value.kind),
           printable(value_text(value))});
    }
  });
}

void print_files(Output& out, const ItemMetadata& item) {
  const bool has_ranks = !writers(item).empty();
  std::vector<Column> columns{{"FILE"}, {"SIZE", true}};
  if (has_ranks) {
    columns.push_back({"RANK", true});
  }
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const FileMetadata& file : item.files) {
      Row cells{printable(file.name), size_text(file.bytes)};
      if (has_ranks) {
        cells.push_back(rank_text(file.rank));
      }
      row(cells);
    }
  });
}

/// The arrays of a checkpointable; with a depth only how many there are in each of its groups.
void print_all_arrays(Output& out, const CheckpointView& checkpoint, const std::string& title,
                      const ItemMetadata& item, std::vector<NamedArray> arrays, const Arguments& arguments) {
  constexpr std::size_t kMostGroups = 20;  // With --depth there are all.
  std::stable_sort(arrays.begin(), arrays.end(), [](const NamedArray& a, const NamedArray& b) {
    return is_naturally_less(a.name, b.name);
  });
  const std::vector<ArrayTotal> groups = totals_by_group(arrays, arguments.depth.value_or(1));
  const std::vector<ArrayTotal> dtypes = totals_by_dtype(arrays);
  if (!arguments.depth) {
    print_arrays(out, arrays, checkpoint.is_foreign(), arguments.lists_arrays);
  }
  if (arguments.depth || (groups.size() > 1 && groups.size() < arrays.size())) {
    print_totals(out, "GROUP", groups, arguments.depth ? 0 : kMostGroups);
  }
  if (dtypes.size() > 1) {
    print_totals(out, "OF DTYPE", dtypes, 0);
  }
  if (!arguments.depth) {
    print_divisions(out, item, arrays);
  }
  if (arguments.has_statistics) {
    print_statistics(out, arrays, gather(checkpoint, title, arrays));
  }
}

void print_item(Output& out, const CheckpointView& checkpoint, const std::string& title,
                const ItemMetadata& item, const Shown& shown, const Arguments& arguments) {
  const Description& description = shown.description;
  out.print("\n{}  {}  {}\n", printable(title), printable(item.handler_id), size_text(item.bytes));
  const std::string problem = problem_text(item);
  if (!problem.empty()) {
    out.print("  {}\n", printable(problem));
  }
  if (!description.kind.empty()) {
    out.print("  {}{}\n", printable(description.kind),
              description.layout.empty() ? "" : fmt::format(" ({})", printable(description.layout)));
  }
  for (const FilesOfPolicy& one : description.policies) {
    out.print("  files      {}{}\n", printable(one.policy), file_names(one.files));
  }
  if (!shown.arrays.empty()) {
    print_all_arrays(out, checkpoint, title, item, shown.arrays, arguments);
  }
  if (!description.values.empty() && arguments.depth) {
    out.print("  {}\n", count_text(description.values.size(), "value"));
  } else if (!description.values.empty()) {
    print_values(out, title, description.values, checkpoint.is_foreign());
  }
  if (!description.left_out.empty()) {
    print_left_out(out, title, description.left_out, checkpoint.is_foreign());
  }
  print_notes(out, description.problems, "  ");
  if (!shown.is_whole || arguments.depth) {
    return;
  }
  if (const auto message = chunks_of(item)) {
    print_chunks(out, *message);
  }
  if (problem.empty()) {
    print_documents(out, checkpoint, title, description, "  ", kMostLines);
  }
  const bool is_unknown = description.kind.empty() && shown.arrays.empty() && description.values.empty();
  if (is_unknown || writers(item).size() > 1) {
    print_files(out, item);
  }
}

}  // namespace

int inspect(const Arguments& arguments, Output& out) {
  if (is_records_file(arguments.path)) {
    return inspect_records(arguments, out);
  }
  NameFilter filter(arguments.names);
  CheckpointMetadata asked = describe_with_files(arguments.path, arguments.layout);
  if (!arguments.names.empty()) {
    const CheckpointView all(asked);
    std::erase_if(asked.items,
                  [&](const auto& each) { return !is_asked_for(all, each.first, each.second, filter); });
    filter.require_all_found(all.metadata());
  }
  const CheckpointView checkpoint(std::move(asked));
  const CheckpointMetadata& metadata = checkpoint.metadata();
  Report origin;
  add_origin(origin, arguments.path, metadata);
  if (!arguments.is_json) {
    origin.print(out);
    for (const auto& [title, item] : metadata) {
      const Shown shown = shown_of(checkpoint, title, item, filter);
      print_item(out, checkpoint, title, item, shown, arguments);
    }
    if (metadata.items.size() > 1) {
      out.print("\ntotal  {}  {}\n", count_text(metadata.items.size(), "checkpointable"),
                size_text(total_bytes(metadata)));
    }
    return judge(metadata, out);
  }
  JsonWriter json = json_to(out);
  json.begin_object();
  origin.write(json);
  json.key("checkpointables").begin_object();
  for (const auto& [title, item] : metadata) {
    json.key(title);
    const Shown shown = shown_of(checkpoint, title, item, filter);
    write_item(json, checkpoint, title, item, shown, arguments);
  }
  json.end().end();
  return judge(metadata, out);
}

}  // namespace cairn::cli
