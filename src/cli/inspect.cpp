// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cairn/tools/array_reader.hpp"

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/document.hpp"
#include "cli/elements.hpp"
#include "cli/proto.hpp"
#include "cli/records.hpp"
#include "cli/shards.hpp"
#include "cli/text.hpp"
#include "tools/internal/checkpoint_view.hpp"
#include "tools/internal/verify_foreign.hpp"

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

/// Returns what the arrays of a checkpointable hold, in their order. Reads all of them, in bounded memory.
std::vector<ArrayStatistics> gather(const CheckpointView& checkpoint, const std::string& title,
                                    const ArrayEntries& entries) {
  std::vector<std::string> names;
  for (const ArrayEntry& entry : entries) {
    names.emplace_back(entry.name);
  }
  return names.empty() ? std::vector<ArrayStatistics>() : checkpoint.reader(title).statistics(names);
}

void write_item(JsonWriter& json, const CheckpointView& checkpoint, const std::string& title,
                const ItemMetadata& item, bool has_statistics) {
  const Description description = described(checkpoint, title, item);
  json.begin_object().key("handler").value(item.handler_id).key("bytes").value(item.bytes);
  if (const std::string problem = problem_text(item); !problem.empty()) {
    json.key("problem").value(problem);
  }
  if (!description.kind.empty()) {
    json.key("kind").value(description.kind);
  }
  if (!description.layout.empty()) {
    json.key("layout").value(description.layout);
  }
  write_policies(json, description.policies);
  write_arrays(
      json, item, description.arrays, checkpoint.is_foreign(), Parts::shown,
      has_statistics ? gather(checkpoint, title, description.arrays) : std::vector<ArrayStatistics>());
  json.key("values").begin_list();
  for (const DescribedValue& value : description.values) {
    write_value(json, value, checkpoint.is_foreign());
  }
  json.end();
  if (const auto message = chunks_of(item)) {
    write_chunks(json, *message);
  }
  write_left_out(json, description.left_out, checkpoint.is_foreign());
  write_notes(json, description.problems);
  write_documents(json, checkpoint, title, description);
  json.key("files").begin_list();
  for (const FileMetadata& file : item.files) {
    json.begin_object(JsonLayout::line).key("name").value(file.name).key("bytes").value(file.bytes);
    if (file.rank) {
      json.key("rank").value(std::uint64_t{*file.rank});
    }
    json.end();
  }
  json.end().end();
}

void print_arrays(Output& out, const CheckpointView& checkpoint, std::string_view title,
                  const ArrayEntries& entries) {
  std::uint64_t bytes = 0;
  for (const ArrayEntry& array : entries) {
    bytes += array.alias_of.empty() ? array.bytes : 0;
  }
  const std::array<Column, 4> columns{{{"ARRAY"}, {"DTYPE"}, {"SHAPE"}, {"SIZE", true}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const ArrayEntry& array : entries) {
      row({part_title(title, shown_path(array.name, checkpoint.is_foreign())), std::string(name(array.dtype)),
           to_string(array.shape), size_or_alias_text(array, checkpoint.is_foreign())});
    }
    row({"total", count_text(entries.size(), "array"), "", size_text(bytes)});
  });
}

void print_statistics(Output& out, const CheckpointView& checkpoint, std::string_view title,
                      const ArrayEntries& entries, const std::vector<ArrayStatistics>& statistics) {
  const std::array<Column, 6> columns{
      {{"HOLDS"}, {"MIN", true}, {"MAX", true}, {"MEAN", true}, {"NANS", true}, {"ZEROS", true}}};
  const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    auto next = statistics.begin();
    for (const ArrayEntry& array : entries) {
      const ArrayStatistics& of = *next++;
      row({part_title(title, shown_path(array.name, checkpoint.is_foreign())),
           or_dash(number_text(of.min, array.dtype)), or_dash(number_text(of.max, array.dtype)),
           of.mean ? fmt::format("{:.6g}", *of.mean) : "-", count_text(of.nans), count_text(of.zeros)});
    }
  });
}

/// The arrays that were divided: how, and where their parts lie.
void print_divisions(Output& out, const CheckpointView& checkpoint, std::string_view title,
                     const ItemMetadata& item, const ArrayEntries& entries) {
  if (!are_divided(entries)) {
    return;
  }
  const auto for_each_divided = [&](const auto& visit) {
    for (const ArrayEntry& array : entries) {
      if (is_divided(array)) {
        visit(array, part_title(title, shown_path(array.name, checkpoint.is_foreign())));
      }
    }
  };
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

void print_item(Output& out, const CheckpointView& checkpoint, const std::string& title,
                const ItemMetadata& item, bool has_statistics) {
  const Description description = described(checkpoint, title, item);
  out.print("\n{}  {}  {}\n", printable(title), printable(item.handler_id), size_text(item.bytes));
  if (const std::string problem = problem_text(item); !problem.empty()) {
    out.print("  {}\n", printable(problem));
  }
  if (!description.kind.empty()) {
    out.print("  {}{}\n", printable(description.kind),
              description.layout.empty() ? "" : fmt::format(" ({})", printable(description.layout)));
  }
  for (const FilesOfPolicy& one : description.policies) {
    out.print("  files      {}{}\n", printable(one.policy), file_names(one.files));
  }
  if (!description.arrays.empty()) {
    print_arrays(out, checkpoint, title, description.arrays);
    print_divisions(out, checkpoint, title, item, description.arrays);
    if (has_statistics) {
      print_statistics(out, checkpoint, title, description.arrays,
                       gather(checkpoint, title, description.arrays));
    }
  }
  if (!description.values.empty()) {
    print_values(out, title, description.values, checkpoint.is_foreign());
  }
  if (const auto message = chunks_of(item)) {
    print_chunks(out, *message);
  }
  if (!description.left_out.empty()) {
    print_left_out(out, title, description.left_out, checkpoint.is_foreign());
  }
  print_notes(out, description.problems, "  ");
  print_documents(out, checkpoint, title, description, "  ", kMostLines);
  const bool is_unknown =
      description.kind.empty() && description.arrays.empty() && description.values.empty();
  if (is_unknown || writers(item).size() > 1) {
    print_files(out, item);
  }
}

}  // namespace

int inspect(const Arguments& arguments, Output& out) {
  if (is_records_file(arguments.path)) {
    return inspect_records(arguments, out);
  }
  const CheckpointView checkpoint(describe(arguments.path, arguments.layout, arguments.name));
  const CheckpointMetadata& metadata = checkpoint.metadata();
  if (!arguments.is_json) {
    print_origin(out, arguments.path, metadata);
    for (const auto& [title, item] : metadata) {
      print_item(out, checkpoint, title, item, arguments.has_statistics);
    }
    if (metadata.items.size() > 1) {
      out.print("\ntotal  {}  {}\n", count_text(metadata.items.size(), "checkpointable"),
                size_text(total_bytes(metadata)));
    }
    return judge(metadata, out);
  }
  JsonWriter json = json_to(out);
  json.begin_object();
  write_origin(json, arguments.path, metadata);
  json.key("checkpointables").begin_object();
  for (const auto& [title, item] : metadata) {
    json.key(title);
    write_item(json, checkpoint, title, item, arguments.has_statistics);
  }
  json.end().end();
  return judge(metadata, out);
}

}  // namespace cairn::cli
