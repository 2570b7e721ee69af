// SPDX-License-Identifier: Apache-2.0
#include "cli/describe.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/context.hpp"
#include "cairn/base/error.hpp"
#include "cairn/core/context.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "base/internal/printable.hpp"
#include "cli/elements.hpp"
#include "cli/paths.hpp"
#include "cli/proto.hpp"
#include "cli/shards.hpp"
#include "cli/text.hpp"
#include "core/internal/start.hpp"
#include "formats/internal/index.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/manifest.hpp"
#include "tools/internal/checkpoint_view.hpp"

namespace cairn::cli {
namespace {

/// A few small files are read: a ring and many threads would cost more than they bring.
ContextOptions small_context() {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.worker_threads = 1;
  return options;
}

/// The checkpoint of which `path` is a data file; nothing when there is none.
std::optional<std::filesystem::path> owner_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = parent_of(path);
  const std::filesystem::path root = parent_of(folder);
  try {
    const auto checkpoint = store::CommittedDirectory::open(io::posix_syscalls(), root);
    const std::string relative = name_of(folder) + "/" + name_of(path);
    const auto& files = checkpoint.manifest().files;
    if (std::any_of(files.begin(), files.end(), [&](const auto& file) { return file.path == relative; })) {
      return root;
    }
  } catch (const Error&) {
    return std::nullopt;  // What it says of the file matters only where it can be read.
  }
  return std::nullopt;
}

/// JSON has no word for infinities.
void write_extreme(JsonWriter& json, const std::string& text) {
  if (text.empty()) {
    json.raw("null");
  } else if (text.ends_with("inf")) {
    json.value(text);
  } else {
    json.raw(text);
  }
}

void write_statistics(JsonWriter& json, const ArrayStatistics& statistics, DType dtype) {
  json.key("stats").begin_object(JsonLayout::line);
  json.key("min");
  write_extreme(json, number_text(statistics.min, dtype));
  json.key("max");
  write_extreme(json, number_text(statistics.max, dtype));
  json.key("mean");
  const double mean = statistics.mean.value_or(0);
  if (std::isfinite(mean)) {
    json.raw(statistics.mean ? fmt::to_string(mean) : "null");
  } else {
    json.value(fmt::to_string(mean));
  }
  json.key("nans").value(statistics.nans).key("zeros").value(statistics.zeros).end();
}

}  // namespace

CheckpointMetadata describe(const std::filesystem::path& path, const std::string& layout,
                            const std::string& name) {
  const Context context(small_context());
  std::vector<std::string> names;
  if (!name.empty()) {
    names.push_back(name);
  }
  TreeLoadOptions of_trees;
  of_trees.layout = layout;
  LoadOptions options;
  options.handler_options.set(of_trees);
  CheckpointMetadata metadata = core::read_metadata(
      path, names, layer({optional_proto_handlers(), handlers_of(context)}), options, context);
  for (auto& [unused, item] : metadata.items) {
    item.problem = as_typed(std::move(item.problem), std::span(&path, 1));
  }
  return metadata;
}

CheckpointMetadata describe_with_files(const std::filesystem::path& path, const std::string& layout,
                                       const std::string& name) {
  CheckpointMetadata metadata = describe(path, layout, name);
  CheckpointMetadata place;  // All that a view needs to find files.
  place.path = metadata.path;
  place.uuid = metadata.uuid;
  const tools::CheckpointView view(std::move(place));
  for (auto& [title, item] : metadata.items) {
    const std::optional<store::VerifyProblem> found = view.file_problem(title);
    if (found && problem_text(item).empty()) {
      item.problem = as_typed(found->text, std::span(&path, 1));
      item.problem_code = found->damage == store::Damage::missing ? Errc::not_found : Errc::checksum_mismatch;
    }
  }
  return metadata;
}

Renames renames_of(const std::vector<std::string>& renames, const std::vector<std::string>& strips) {
  std::vector<Rename> made;
  for (const std::string& text : renames) {
    const std::size_t sign = text.find('=');
    made.emplace_back(text.substr(0, sign), text.substr(sign + 1));
  }
  for (const std::string& prefix : strips) {
    made.emplace_back(prefix + ".**", "**");
  }
  return made;
}

std::uint64_t total_bytes(const CheckpointMetadata& metadata) {
  std::uint64_t bytes = 0;
  for (const auto& [name, item] : metadata) {
    bytes += item.bytes;
  }
  return bytes;
}

int judge(const CheckpointMetadata& metadata, Output& out) {
  const auto damaged = std::find_if(metadata.begin(), metadata.end(),
                                    [](const auto& item) { return !problem_text(item.second).empty(); });
  if (damaged == metadata.end()) {
    return 0;
  }
  out.flush();
  complain(fmt::format("{}: {}", damaged->second.problem, damaged->second.problem_code.message()));
  return 1;
}

bool is_foreign(const CheckpointMetadata& metadata) {
  return metadata.uuid.empty();
}

std::string part_title(std::string_view checkpointable, std::string_view path) {
  return printable(path.empty() ? checkpointable : path);
}

std::string size_or_alias_text(const ArrayEntry& array, bool is_foreign) {
  return array.alias_of.empty() ? size_text(array.bytes)
                                : fmt::format("is {}", printable(shown_path(array.alias_of, is_foreign)));
}

void write_array(JsonWriter& json, const ItemMetadata& item, const ArrayEntry& array, bool is_foreign,
                 Parts parts, const ArrayStatistics* statistics) {
  json.begin_object(JsonLayout::line).key("name").value(shown_path(array.name, is_foreign));
  json.key("dtype").value(dtype_text(array.dtype));
  json.key("shape").begin_list();
  for (const std::uint64_t extent : array.shape) {
    json.value(extent);
  }
  json.end().key("bytes").value(array.bytes);
  if (!array.alias_of.empty()) {
    json.key("alias_of").value(shown_path(array.alias_of, is_foreign));
  }
  if (is_divided(array)) {
    json.key("parts").value(array.parts);
    write_ranks(json, writers(item, array));
  }
  if (!array.layout.empty()) {
    json.key("layout").value(array.layout);
  }
  if (is_divided(array) && parts == Parts::shown) {
    write_shards(json, item, array);
  }
  if (statistics != nullptr) {
    write_statistics(json, *statistics, array.dtype);
  }
  json.end();
}

void add_origin(Report& report, const std::filesystem::path& path, const CheckpointMetadata& metadata) {
  report.line(path_text(path));
  report.member("path", text_cell(path.string()));
  if (is_foreign(metadata)) {
    if (const auto owner = owner_of(path)) {
      report.member("checkpoint", text_cell(owner->string()));
      report.line(fmt::format("  a data file of the checkpoint {}: its checksums are there, see cairn verify",
                              path_text(*owner)));
      return;
    }
    std::string layout;
    for (const auto& [name, item] : metadata) {
      layout = item.description().layout;
    }
    report.line(fmt::format("  files of another program{}: see cairn verify for what protects them",
                            layout.empty() ? layout : fmt::format(" ({})", printable(layout))));
    return;
  }
  report.line(
      fmt::format("  committed  {}  (begun {})", printable(metadata.committed), printable(metadata.started)));
  report.line(fmt::format("  uuid       {}", metadata.uuid));
  report.line(fmt::format("  format     {}, world size {}", store::kFormatVersion, metadata.world_size));
  if (metadata.custom_metadata != "null") {
    report.line(fmt::format("  custom     {}", printable(metadata.custom_metadata)));
  }
  report.member("format_version", number_cell(store::kFormatVersion));
  report.member("uuid", text_cell(metadata.uuid));
  report.member("started", text_cell(metadata.started));
  report.member("committed", text_cell(metadata.committed));
  report.member("world_size", number_cell(metadata.world_size));
  report.members(
      [custom = metadata.custom_metadata](JsonWriter& json) { json.key("custom_metadata").raw(custom); });
}

bool has_objects(const Description& description) {
  return std::any_of(description.values.begin(), description.values.end(), [](const DescribedValue& value) {
    return value.kind == name(formats::EntryKind::unread);
  });
}

void write_notes(JsonWriter& json, const std::vector<std::string>& notes) {
  if (notes.empty()) {
    return;
  }
  json.key("notes").begin_list();
  for (const std::string& note : notes) {
    json.value(note);
  }
  json.end();
}

void print_notes(Output& out, const std::vector<std::string>& notes, std::string_view indent) {
  for (const std::string& note : notes) {
    out.print("{}note: {}\n", indent, printable(note));
  }
}

}  // namespace cairn::cli
