// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/diff.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

/// "2 of 3 elements, by 0.25 at most".
std::string extent_text(const ArrayDifference& array) {
  std::string text =
      fmt::format("{} of {}", count_text(array.differing), count_text(array.elements, "element"));
  if (array.largest > 0) {
    text += fmt::format(", by {} at most", array.largest);
  }
  if (array.has_nan) {
    text += ", NaN on one side only";
  }
  if (array.largest == 0 && !array.has_nan) {
    text += ", though the numbers are equal";  // Negative zeros, and NaNs of other bits.
  }
  return text;
}

std::string pair_text(const Difference& difference) {
  if (difference.array) {
    return extent_text(*difference.array);
  }
  if (difference.aspect == Difference::Aspect::only_in_a) {
    return printable(difference.a);
  }
  if (difference.aspect == Difference::Aspect::only_in_b) {
    return printable(difference.b);
  }
  return fmt::format("{} | {}", printable(difference.a), printable(difference.b));
}

std::string compared_text(const CheckpointDiff& comparison) {
  std::string text =
      fmt::format("{}, {}, {} of values compared", count_text(comparison.checkpointables, "checkpointable"),
                  count_text(comparison.arrays, "array"), size_text(comparison.compared_bytes));
  if (comparison.same_files_bytes != 0) {
    text += fmt::format(", {} in files of the same hashes", size_text(comparison.same_files_bytes));
  }
  return text;
}

/// Leaves the first `top` differences: those of structure, then arrays by how far their numbers lie apart. Returns how
/// many are left out.
std::size_t keep_top(std::vector<Difference>& differences, std::size_t top) {
  const auto distance = [](const Difference& difference) {
    return difference.array ? difference.array->largest : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(differences.begin(), differences.end(), [&](const Difference& a, const Difference& b) {
    return a.array.has_value() != b.array.has_value() ? b.array.has_value() : distance(a) > distance(b);
  });
  const std::size_t left_out = differences.size() - std::min(top, differences.size());
  differences.resize(differences.size() - left_out);
  return left_out;
}

/// Says that nothing was read, where an answer could be taken for more than it is.
std::string unread_text(const Arguments& arguments, const CheckpointDiff& comparison) {
  if (comparison.has_read_values || !comparison.differences.empty()) {
    return {};
  }
  if (arguments.metadata_only) {
    return "no values were read: --metadata compares names, types and shapes\n";
  }
  return comparison.same_files_bytes == 0
             ? std::string()
             : "no values were read: the files of both have the same hashes; --read compares their bytes\n";
}

void print_comparison(Output& out, const Arguments& arguments, const CheckpointDiff& comparison,
                      std::size_t left_out) {
  out.write(unread_text(arguments, comparison));
  out.print("A  {}\nB  {}\n\n", path_text(arguments.path), path_text(arguments.other));
  if (!comparison.differences.empty()) {
    const std::array<Column, 3> columns{{{"ASPECT"}, {"NAME"}, {"A | B"}}};
    print_table(out, "", columns, [&](const RowVisitor& row) {
      for (const Difference& difference : comparison.differences) {
        row({std::string(name(difference.aspect)), printable(difference.name), pair_text(difference)});
      }
    });
    if (left_out != 0) {
      out.print("… and {} more\n", count_text(left_out));
    }
    out.write("\n");
  }
  print_notes(out, comparison.notes);
  out.print("{}: {}\n",
            comparison.differences.empty()
                ? "no difference"
                : count_text(comparison.differences.size() + left_out, "difference"),
            compared_text(comparison));
}

void write_difference(JsonWriter& json, const Difference& difference) {
  json.begin_object(JsonLayout::line).key("aspect").value(name(difference.aspect));
  json.key("name").value(difference.name);
  if (difference.array) {
    const ArrayDifference& array = *difference.array;
    json.key("elements").value(array.elements).key("differing").value(array.differing);
    json.key("largest");
    if (std::isfinite(array.largest)) {
      json.raw(fmt::to_string(array.largest));
    } else {
      json.value("inf");  // JSON has no word for it.
    }
    json.key("has_nan").value(array.has_nan);
  } else {
    if (difference.aspect != Difference::Aspect::only_in_b) {
      json.key("a").value(difference.a);
    }
    if (difference.aspect != Difference::Aspect::only_in_a) {
      json.key("b").value(difference.b);
    }
  }
  json.end();
}

void write_comparison(JsonWriter json, const Arguments& arguments, const CheckpointDiff& comparison,
                      std::size_t left_out) {
  json.begin_object().key("a").value(arguments.path.string()).key("b").value(arguments.other.string());
  json.key("is_equal").value(comparison.differences.empty());
  json.key("checkpointables").value(comparison.checkpointables).key("arrays").value(comparison.arrays);
  json.key("compared_bytes").value(comparison.compared_bytes);
  json.key("same_files_bytes").value(comparison.same_files_bytes);
  json.key("has_read_values").value(comparison.has_read_values);
  json.key("differences").begin_list();
  for (const Difference& difference : comparison.differences) {
    write_difference(json, difference);
  }
  json.end();
  if (left_out != 0) {
    json.key("differences_left_out").value(left_out);
  }
  write_notes(json, comparison.notes);
  json.end();
}

CheckpointDiff compare_with_bar(const Arguments& arguments) {
  ProgressBar bar(stderr);
  DiffOptions options;
  options.rename = renames_of(arguments.renames, arguments.strips);
  options.compares_values = !arguments.metadata_only;
  options.tolerance = arguments.tolerance;
  options.relative_tolerance = arguments.relative_tolerance;
  options.reads_same_files = arguments.reads_same_files;
  options.progress = [&bar](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    bar.update(done_bytes, total_bytes);
  };
  return diff_checkpoints(describe(arguments.path, arguments.layout),
                          describe(arguments.other, arguments.layout), options);
}

}  // namespace

int diff(const Arguments& arguments, Output& out) {
  CheckpointDiff comparison = compare_with_bar(arguments);
  const std::size_t left_out = arguments.top ? keep_top(comparison.differences, *arguments.top) : 0;
  if (arguments.is_json) {
    write_comparison(json_to(out), arguments, comparison, left_out);
  } else {
    print_comparison(out, arguments, comparison, left_out);
  }
  return comparison.differences.empty() ? 0 : 1;
}

}  // namespace cairn::cli
