// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/export.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/tools/torch_export.hpp"

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/stop_signals.hpp"
#include "cli/text.hpp"
#include "cli/usage_error.hpp"
#include "formats/internal/torch_archive.hpp"

namespace cairn::cli {
namespace {

/// The form that was asked for, or that the target's name says.
std::string format_of(const Arguments& arguments) {
  const std::string ending = arguments.other.extension().string();
  if (!arguments.exporting.format.empty()) {
    return arguments.exporting.format;
  }
  return ending == ".safetensors" ? "safetensors" : ending == ".pt" || ending == ".pth" ? "torch" : "hf";
}

bool is_torch(std::string_view format) {
  return format == "torch" || format == "dcp" || format == "torch_dist";
}

/// Takes what the tool calls a dtype, and what torch does.
///
/// Errors: UsageError.
std::optional<DType> asked_dtype(const std::string& word) {
  std::optional<DType> dtype = tools::dtype_of(word);
  if (!dtype && !word.empty()) {
    dtype = formats::torch_dtype(word);
  }
  if (!dtype && !word.empty()) {
    throw UsageError(fmt::format("--dtype: '{}' is not a dtype such as bfloat16", word));
  }
  return dtype;
}

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
    const std::string_view why = is_torch(format_of(arguments)) ? "no place there" : "not arrays";
    out.print("left out, {}: {}\n", why, printable(fmt::format("{}", fmt::join(plan.left_out, ", "))));
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

ExportPlan export_as(const std::string& format, const CheckpointMetadata& source,
                     const std::filesystem::path& target, const ExportOptions& options) {
  return format == "torch"        ? write_torch_archive(source, target, options)
         : format == "dcp"        ? write_torch_distributed(source, target, options)
         : format == "torch_dist" ? write_torch_dist(source, target, options)
                                  : cairn::export_arrays(source, target, options);
}

ExportPlan export_with_bar(const Arguments& arguments, const std::string& format, ExportOptions options) {
  const CheckpointMetadata source = describe(arguments.path, arguments.layout, arguments.name);
  const StopSignals signals(arguments.other);
  ProgressBar bar(stderr);
  options.progress = [&](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    bar.update(done_bytes, total_bytes);
    signals.check();
  };
  ExportPlan plan = export_as(format, source, arguments.other, options);
  signals.finish();
  return plan;
}

}  // namespace

int export_arrays(const Arguments& arguments, Output& out) {
  if (is_message_export(arguments)) {
    return export_message(arguments, out);
  }
  const std::string format = format_of(arguments);
  ExportOptions options;
  options.checkpointable = arguments.name;
  options.only = arguments.exporting.only;
  options.dtype = asked_dtype(arguments.exporting.dtype);
  options.rename = renames_of(arguments.renames, arguments.strips);
  options.separator = arguments.exporting.separator;
  options.max_file_bytes = arguments.exporting.max_file_bytes;
  options.first_names_only = arguments.exporting.first_names_only;
  options.leave_out = arguments.exporting.leaves_out;
  options.is_folder = format == "hf";
  if (is_torch(format) && options.separator != ExportOptions().separator) {
    throw UsageError("--separator is for safetensors and hf: torch has nested maps, or joins keys by points");
  }
  const ExportPlan plan = export_with_bar(arguments, format, std::move(options));
  if (arguments.is_json) {
    write_answer(json_to(out), arguments, plan);
  } else {
    print_answer(out, arguments, plan);
  }
  return 0;
}

}  // namespace cairn::cli
