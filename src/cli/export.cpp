// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/export.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/stop_signals.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

void print_answer(Output& out, const Arguments& arguments, const ExportPlan& plan) {
  out.print("{}: {} of '{}'\n", path_text(arguments.other), count_text(plan.arrays.size(), "array"),
            printable(plan.checkpointable));
  const std::array<Column, 3> columns{{{"FILE"}, {"ARRAYS", true}, {"SIZE", true}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const ExportedFile& file : plan.files) {
      row({printable(file.name), count_text(file.arrays), size_text(file.bytes)});
    }
  });
  if (!plan.left_out.empty()) {
    out.print("left out, not arrays: {}\n", printable(fmt::format("{}", fmt::join(plan.left_out, ", "))));
  }
  if (!plan.aliases.empty()) {
    out.print("left out, further names of arrays: {}\n",
              printable(fmt::format("{}", fmt::join(plan.aliases, ", "))));
  }
  print_notes(out, plan.notes);
}

void write_names(JsonWriter& json, std::string_view key, const std::vector<std::string>& names) {
  json.key(key).begin_list();
  for (const std::string& name : names) {
    json.value(name);
  }
  json.end();
}

void write_answer(JsonWriter json, const Arguments& arguments, const ExportPlan& plan) {
  json.begin_object()
      .key("path")
      .value(arguments.other.string())
      .key("checkpointable")
      .value(plan.checkpointable);
  json.key("files").begin_list();
  for (const ExportedFile& file : plan.files) {
    json.begin_object(JsonLayout::line).key("name").value(file.name);
    json.key("arrays").value(file.arrays).key("bytes").value(file.bytes).end();
  }
  json.end();
  write_names(json, "left_out", plan.left_out);
  write_names(json, "aliases_left_out", plan.aliases);
  write_notes(json, plan.notes);
  json.end();
}

ExportPlan export_with_bar(const Arguments& arguments, ExportOptions options) {
  const CheckpointMetadata source = describe(arguments.path, arguments.layout, arguments.name);
  const StopSignals signals(arguments.other);
  ProgressBar bar(stderr);
  options.progress = [&](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    bar.update(done_bytes, total_bytes);
    signals.check();
  };
  ExportPlan plan = cairn::export_arrays(source, arguments.other, options);
  signals.finish();
  return plan;
}

}  // namespace

int export_arrays(const Arguments& arguments, Output& out) {
  if (is_message_export(arguments)) {
    return export_message(arguments, out);
  }
  ExportOptions options;
  options.checkpointable = arguments.name;
  options.rename = renames_of(arguments.renames, arguments.strips);
  options.separator = arguments.exporting.separator;
  options.max_file_bytes = arguments.exporting.max_file_bytes;
  options.first_names_only = arguments.exporting.first_names_only;
  options.leave_out = arguments.exporting.leaves_out;
  options.is_folder = arguments.exporting.format.empty() ? arguments.other.extension() != ".safetensors"
                                                         : arguments.exporting.format == "hf";
  const ExportPlan plan = export_with_bar(arguments, std::move(options));
  if (arguments.is_json) {
    write_answer(json_to(out), arguments, plan);
  } else {
    print_answer(out, arguments, plan);
  }
  return 0;
}

}  // namespace cairn::cli
