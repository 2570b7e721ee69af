// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/export.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/api/load.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/json_writer.hpp"
#include "formats/internal/hugging_face.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/safetensors_layout.hpp"
#include "io/internal/file.hpp"
#include "tools/export_target.hpp"
#include "tools/internal/array_stream.hpp"
#include "tools/internal/checkpoint_view.hpp"
#include "tools/internal/text.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Errc::invalid_argument, why);
}

std::string exported_name(const std::string& item, std::string_view path, const std::string& separator) {
  return path.empty() ? item : fmt::format("{}", fmt::join(formats::split_path(path), separator));
}

void require_different_names(const std::vector<ExportedArray>& arrays) {
  std::map<std::string_view, std::string_view> paths;
  for (const ExportedArray& array : arrays) {
    if (array.name == "__metadata__") {
      refuse(fmt::format(
          "'{}' would be called '__metadata__', which safetensors keeps for itself; choose another "
          "name with --rename '{}=…' or ExportOptions::rename",
          array.path, array.path));
    }
    const auto [other, is_new] = paths.emplace(array.name, array.path);
    if (!is_new) {
      refuse(fmt::format("'{}' and '{}' would both be called '{}'; choose another --separator", other->second,
                         array.path, array.name));
    }
  }
}

/// Gives the arrays of a plan the names that other programs see.
void name_arrays(ExportPlan& plan, const ExportOptions& options) {
  std::vector<std::string> paths;
  for (const ExportedArray& array : plan.arrays) {
    paths.push_back(array.path);
  }
  Renames::Use renames(options.rename);
  paths = renames.apply(paths);
  renames.require_used();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    plan.arrays[i].name = exported_name(plan.checkpointable, paths[i], options.separator);
  }
}

formats::TensorSpec spec_of(const ExportedArray& array) {
  return {array.name, array.dtype, array.shape};
}

/// Plans files of some arrays: usually one, more where their names are long.
std::vector<formats::SafetensorsLayout> lay_out(std::span<const ExportedArray> arrays) {
  std::vector<formats::TensorMeasure> measures;
  for (const ExportedArray& array : arrays) {
    measures.push_back(formats::measure_tensor(spec_of(array)));
  }
  return formats::plan_safetensors(measures);
}

/// Plans files of the arrays [first, first + count).
void add_files(ExportPlan& plan, std::size_t first, std::size_t count) {
  for (const formats::SafetensorsLayout& layout : lay_out(std::span(plan.arrays).subspan(first, count))) {
    plan.files.push_back({"", first + layout.first_spec, layout.offsets.size(), layout.file_size});
  }
}

void plan_folder(ExportPlan& plan, std::uint64_t max_file_bytes) {
  std::size_t first = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < plan.arrays.size(); ++i) {
    if (i != first && bytes + plan.arrays[i].bytes > max_file_bytes) {
      add_files(plan, first, i - first);
      first = i;
      bytes = 0;
    }
    bytes += plan.arrays[i].bytes;
  }
  add_files(plan, first, plan.arrays.size() - first);
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    plan.files[i].name = plan.files.size() == 1
                             ? "model.safetensors"
                             : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, plan.files.size());
  }
}

void write_file(const ArrayReader& reader, std::span<const ExportedArray> arrays, const std::string& name,
                const tools::ExportStaging& staging, tools::Tally& tally) {
  const formats::SafetensorsLayout layout = lay_out(arrays).front();
  const std::filesystem::path path = staging.folder().path() / name;
  io::FileHandle out = staging.create_file(name, layout.file_size);
  std::vector<formats::TensorSpec> specs;
  std::transform(arrays.begin(), arrays.end(), std::back_inserter(specs), spec_of);
  const auto header = formats::safetensors_header(specs, layout);
  io::write_all(out, std::as_bytes(std::span(header)), 0, path);
  std::vector<tools::Region> regions;
  for (const std::uint32_t i : layout.order) {
    regions.push_back(tools::exported_region(reader, arrays[i]));
  }
  tools::ArrayStream stream(reader, std::move(regions));
  while (const std::optional<tools::RegionPiece> piece = stream.next()) {
    const std::uint64_t begin = layout.offsets[layout.order[piece->region]];
    io::write_all(out, piece->bytes, begin + piece->offset_bytes, path);
    tally.add(piece->bytes.size());
  }
  staging.finish(out, name);
}

/// Which array lies in which file, as Hugging Face's readers want it.
void write_index(const ExportPlan& plan, const tools::Tally& tally, const io::Directory& folder) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().key("metadata").begin_object(JsonLayout::line).key("total_size");
  json.value(tally.total_bytes()).end();
  json.key("weight_map").begin_object();
  for (const ExportedFile& file : plan.files) {
    for (std::size_t i = 0; i < file.arrays; ++i) {
      json.key(plan.arrays[file.first_array + i].name).value(file.name);
    }
  }
  json.end().end();
  io::write_small_file(folder, formats::kHuggingFaceIndexName, text + "\n");
}

}  // namespace

ExportPlan plan_export(const CheckpointMetadata& metadata, const ExportOptions& options) {
  ExportPlan plan;
  tools::ChosenPaths chosen(options.only);
  const Description description = tools::plan_arrays(plan, metadata, options, chosen, nullptr);
  name_arrays(plan, options);
  for (const DescribedValue& value : description.values) {
    if (chosen.leave_out(value.name, fmt::format("it is not an array but of the kind '{}'", value.kind))) {
      plan.left_out.push_back(value.name);
    }
  }
  chosen.require_used();
  if (plan.arrays.empty()) {
    refuse(fmt::format("'{}' has no arrays", plan.checkpointable));
  }
  require_different_names(plan.arrays);
  if (options.is_folder) {
    plan_folder(plan, options.max_file_bytes);
    return plan;
  }
  add_files(plan, 0, plan.arrays.size());
  if (plan.files.size() != 1) {
    refuse(
        fmt::format("{} do not fit into the header of one file: export a folder (--format hf or "
                    "ExportOptions::is_folder)",
                    tools::count_text(plan.arrays.size(), "array")));
  }
  return plan;
}

ExportPlan export_arrays(const std::filesystem::path& from, const std::filesystem::path& target,
                         const ExportOptions& options, const Context& context) {
  return export_arrays(checkpointables_metadata(from, context), target, options);
}

ExportPlan export_arrays(const CheckpointMetadata& from, const std::filesystem::path& target,
                         const ExportOptions& options) {
  ExportPlan plan = plan_export(from, options);
  const tools::ExportStaging staging(from.path, target, options.is_folder);
  if (!options.is_folder) {
    plan.files.front().name = staging.target_name();
  }
  const ArrayReader reader = tools::CheckpointView(from).reader(plan.checkpointable, options.layouts);
  tools::Tally tally(plan, options);
  for (const ExportedFile& file : plan.files) {
    write_file(reader, std::span(plan.arrays).subspan(file.first_array, file.arrays), file.name, staging,
               tally);
  }
  if (plan.files.size() > 1) {
    write_index(plan, tally, staging.folder());
  }
  tally.add(0);
  staging.publish();
  return plan;
}

}  // namespace cairn
