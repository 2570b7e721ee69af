// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/diff.hpp"

#include <array>
#include <cmath>
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

void print_comparison(Output& out, const Arguments& arguments, const CheckpointDiff& comparison) {
  out.print("A  {}\nB  {}\n\n", path_text(arguments.path), path_text(arguments.other));
  if (!comparison.differences.empty()) {
    const std::array<Column, 3> columns{{{"ASPECT"}, {"NAME"}, {"A | B"}}};
    print_table(out, "", columns, [&](const RowVisitor& row) {
      for (const Difference& difference : comparison.differences) {
        row({std::string(name(difference.aspect)), printable(difference.name), pair_text(difference)});
      }
    });
    out.write("\n");
  }
  out.print("{}: {}\n",
            comparison.differences.empty() ? "no difference"
                                           : count_text(comparison.differences.size(), "difference"),
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

void write_comparison(JsonWriter json, const Arguments& arguments, const CheckpointDiff& comparison) {
  json.begin_object().key("a").value(arguments.path.string()).key("b").value(arguments.other.string());
  json.key("is_equal").value(comparison.differences.empty());
  json.key("checkpointables").value(comparison.checkpointables).key("arrays").value(comparison.arrays);
  json.key("compared_bytes").value(comparison.compared_bytes);
  json.key("same_files_bytes").value(comparison.same_files_bytes);
  json.key("differences").begin_list();
  for (const Difference& difference : comparison.differences) {
    write_difference(json, difference);
  }
  json.end().end();
}

CheckpointDiff compare_with_bar(const Arguments& arguments) {
  ProgressBar bar(stderr);
  DiffOptions options;
  options.rename = renames_of(arguments.renames, arguments.strips);
  options.compares_values = !arguments.metadata_only;
  options.tolerance = arguments.tolerance;
  options.progress = [&bar](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    bar.update(done_bytes, total_bytes);
  };
  return diff_checkpoints(describe(arguments.path, arguments.layout),
                          describe(arguments.other, arguments.layout), options);
}

}  // namespace

int diff(const Arguments& arguments, Output& out) {
  const CheckpointDiff comparison = compare_with_bar(arguments);
  if (arguments.is_json) {
    write_comparison(json_to(out), arguments, comparison);
  } else {
    print_comparison(out, arguments, comparison);
  }
  return comparison.differences.empty() ? 0 : 1;
}

}  // namespace cairn::cli
