// SPDX-License-Identifier: Apache-2.0
#include "cli/export_plan.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"
#include "cairn/core/load.hpp"
#include "cairn/formats/index.hpp"

#include "cli/describe.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Errc::invalid_argument, why);
}

/// The checkpointable that was asked for, or the only one that has arrays.
std::string choose_item(const CheckpointMetadata& metadata, const ExportOptions& options) {
  if (!options.item.empty()) {
    static_cast<void>(metadata.at(options.item));  // Or it lists what there is.
    return options.item;
  }
  std::vector<std::string> with_arrays;
  for (const auto& [name, item] : metadata.items) {
    if (const std::string problem = problem_text(item); !problem.empty()) {
      throw Error(item.problem_code, problem);  // It may have arrays.
    }
    if (!item.description().arrays.empty()) {
      with_arrays.push_back(name);
    }
  }
  if (with_arrays.size() == 1) {
    return with_arrays.front();
  }
  refuse(with_arrays.empty()
             ? "no checkpointable has arrays"
             : fmt::format("'{}' have arrays; choose one with --name", fmt::join(with_arrays, "', '")));
}

std::string exported_name(const std::string& item, std::string_view path, const std::string& separator) {
  return path.empty() ? item : fmt::format("{}", fmt::join(formats::split_path(path), separator));
}

void require_different_names(const std::vector<ExportedArray>& arrays) {
  std::map<std::string_view, std::string_view> paths;
  for (const ExportedArray& array : arrays) {
    const auto [other, is_new] = paths.emplace(array.name, array.path);
    if (!is_new) {
      refuse(fmt::format("'{}' and '{}' would both be called '{}'; choose another --separator", other->second,
                         array.path, array.name));
    }
  }
}

formats::TensorMeasure measure(const ExportedArray& array) {
  return formats::measure_tensor({array.name, array.dtype, array.shape});
}

/// Plans the arrays [first, first + count): usually one file, more where their names are long.
void add_files(ExportPlan& plan, std::size_t first, std::size_t count) {
  std::vector<formats::TensorMeasure> measures;
  for (std::size_t i = first; i < first + count; ++i) {
    measures.push_back(measure(plan.arrays[i]));
  }
  for (formats::SafetensorsLayout& layout : formats::plan_safetensors(measures)) {
    plan.files.push_back({"", first + layout.first_spec, std::move(layout)});
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

}  // namespace

ExportPlan plan_export(const std::filesystem::path& source, const ExportOptions& options) {
  const CheckpointMetadata metadata = describe(source, options.item);
  ExportPlan plan;
  plan.item = choose_item(metadata, options);
  const ItemMetadata& item = metadata.items.at(plan.item);
  if (const std::string problem = problem_text(item); !problem.empty()) {
    throw Error(Errc::malformed_metadata, fmt::format("'{}': {}", plan.item, problem));
  }
  const Description description = item.description();
  for (const ArrayEntry& array : description.arrays) {
    if (options.first_names_only && !array.alias_of.empty()) {
      plan.aliases.push_back(part_title(plan.item, array.name));
      continue;
    }
    plan.arrays.push_back({std::string(array.name), exported_name(plan.item, array.name, options.separator),
                           array.dtype, array.shape, array.bytes});
  }
  for (const DescribedValue& value : description.values) {
    plan.left_out.push_back(part_title(plan.item, value.name));
  }
  if (plan.arrays.empty()) {
    refuse(fmt::format("'{}' has no arrays", plan.item));
  }
  require_different_names(plan.arrays);
  if (options.is_folder) {
    plan_folder(plan, options.max_file_bytes);
    return plan;
  }
  add_files(plan, 0, plan.arrays.size());
  if (plan.files.size() != 1) {
    refuse(fmt::format("{} do not fit into the header of one file: export a folder (--format hf)",
                       count_text(plan.arrays.size(), "array")));
  }
  return plan;
}

}  // namespace cairn::cli
