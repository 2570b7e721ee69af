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
#include "io/internal/check.hpp"
#include "io/internal/file.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/staged_directory.hpp"
#include "tools/internal/array_stream.hpp"
#include "tools/internal/checkpoint_view.hpp"
#include "tools/internal/text.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Errc::invalid_argument, why);
}

/// The checkpointable that was asked for, or the only one that has arrays.
std::string choose_item(const CheckpointMetadata& metadata, const ExportOptions& options) {
  if (!options.checkpointable.empty()) {
    static_cast<void>(metadata.at(options.checkpointable));  // Or it lists what there is.
    return options.checkpointable;
  }
  std::vector<std::string> with_arrays;
  for (const auto& [name, item] : metadata.items) {
    if (const std::string problem = tools::problem_text(item); !problem.empty()) {
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
             : fmt::format("'{}' have arrays; choose one with --name or ExportOptions::checkpointable",
                           fmt::join(with_arrays, "', '")));
}

std::string exported_name(const std::string& item, std::string_view path, const std::string& separator) {
  return path.empty() ? item : fmt::format("{}", fmt::join(formats::split_path(path), separator));
}

/// Refuses to leave out what is not an array only because Cairn has no array for it.
void require_all_read(const std::filesystem::path& path, const std::vector<DescribedValue>& left_out) {
  constexpr std::size_t kMostNamed = 20;
  if (left_out.empty()) {
    return;
  }
  std::string named;
  for (const DescribedValue& one : std::span(left_out).first(std::min(left_out.size(), kMostNamed))) {
    named += fmt::format("{}{} ({})", named.empty() ? "" : ", ", formats::shown(one.name), one.kind);
  }
  const std::string more =
      left_out.size() > kMostNamed ? fmt::format(" and {} more", left_out.size() - kMostNamed) : "";
  throw Error(Errc::structure_mismatch,
              fmt::format("{}: {}{} cannot be exported; --leave-out or ExportOptions::leave_out exports the "
                          "arrays without it",
                          path.string(), named, more));
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

/// The directory that the target is to be in.
///
/// Errors: Errc::invalid_argument when that is a checkpoint's, or the folder of other programs' files that `source`
///         is: a file more there would be read with the others.
io::Directory open_parent(const std::filesystem::path& source, const std::filesystem::path& target) {
  const std::filesystem::path path =
      target.has_parent_path() ? target.parent_path() : std::filesystem::absolute(target).parent_path();
  io::Directory parent = io::Directory::open(io::posix_syscalls(), path);
  store::require_outside_checkpoints(parent, target);
  if (std::filesystem::is_directory(source) && std::filesystem::equivalent(source, path)) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' lies in the folder that is exported", target.string()));
  }
  return parent;
}

/// Tells how much of the arrays is written.
class Tally {
 public:
  Tally(const ExportPlan& plan, const ExportOptions& options) : options_(options) {
    for (const ExportedArray& array : plan.arrays) {
      total_bytes_ += array.bytes;
    }
  }

  void add(std::uint64_t bytes) {
    done_bytes_ += bytes;
    if (options_.progress) {
      options_.progress(done_bytes_, total_bytes_);
    }
  }

  [[nodiscard]] std::uint64_t total_bytes() const { return total_bytes_; }

 private:
  const ExportOptions& options_;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

void write_file(const ArrayReader& reader, std::span<const ExportedArray> arrays, const std::string& name,
                const io::Directory& folder, Tally& tally) {
  const formats::SafetensorsLayout layout = lay_out(arrays).front();
  const std::filesystem::path path = folder.path() / name;
  io::FileHandle out = folder.create_file(name);
  const int reserved = io::uninterrupted([&] { return out.syscalls().allocate(out.fd(), layout.file_size); });
  if (reserved < 0 && !io::is_unsupported(reserved)) {
    throw_errno(-reserved, "fallocate", path);
  }
  std::vector<formats::TensorSpec> specs;
  std::transform(arrays.begin(), arrays.end(), std::back_inserter(specs), spec_of);
  const auto header = formats::safetensors_header(specs, layout);
  io::write_all(out, std::as_bytes(std::span(header)), 0, path);
  std::vector<tools::Region> regions;
  for (const std::uint32_t i : layout.order) {
    regions.push_back(tools::whole_region(arrays[i].path, AbstractArray(arrays[i].shape, arrays[i].dtype)));
  }
  tools::ArrayStream stream(reader, std::move(regions));
  while (const std::optional<tools::RegionPiece> piece = stream.next()) {
    const std::uint64_t begin = layout.offsets[layout.order[piece->region]];
    io::write_all(out, piece->bytes, begin + piece->offset_bytes, path);
    tally.add(piece->bytes.size());
  }
  io::require(out.syscalls().sync(out.fd()), "fsync", path);
  io::require(out.close(), "close", path);
}

/// Which array lies in which file, as Hugging Face's readers want it.
void write_index(const ExportPlan& plan, const Tally& tally, const io::Directory& folder) {
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
  plan.checkpointable = choose_item(metadata, options);
  const ItemMetadata& item = metadata.items.at(plan.checkpointable);
  if (const std::string problem = tools::problem_text(item); !problem.empty()) {
    throw Error(Errc::malformed_metadata, fmt::format("'{}': {}", plan.checkpointable, problem));
  }
  const Description description = item.description();
  if (!options.leave_out) {
    require_all_read(metadata.path, description.left_out);
  }
  plan.notes = tools::notes_of(description);
  for (const ArrayEntry& array : description.arrays) {
    if (options.first_names_only && !array.alias_of.empty()) {
      plan.aliases.emplace_back(array.name);
      continue;
    }
    plan.arrays.push_back({std::string(array.name), "", array.dtype, array.shape, array.bytes});
  }
  name_arrays(plan, options);
  for (const DescribedValue& value : description.values) {
    plan.left_out.push_back(value.name);
  }
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
  io::require_path(target);
  const std::filesystem::path named = io::named_path(target);
  if (std::filesystem::exists(std::filesystem::symlink_status(named))) {
    throw Error(Errc::already_exists, named.string());
  }
  const io::Directory parent = open_parent(from.path, named);
  ExportPlan plan = plan_export(from, options);
  if (!options.is_folder) {
    plan.files.front().name = named.filename();
  }
  // All is made in a directory that says whose it is, as that of a save does. It goes with what is left in it.
  staging::OwnPlane own(io::posix_syscalls(), 1);
  const store::StagedDirectory staged = store::StagedDirectory::create(own.plane().engine, named);
  const io::Directory& temporary = *staged.directory();
  const std::string name = named.filename();
  std::optional<io::Directory> made;
  if (options.is_folder) {
    made = temporary.make_directory(name);
  }
  const io::Directory& folder = made ? *made : temporary;
  const ArrayReader reader = tools::CheckpointView(from).reader(plan.checkpointable, options.layouts);
  Tally tally(plan, options);
  for (const ExportedFile& file : plan.files) {
    write_file(reader, std::span(plan.arrays).subspan(file.first_array, file.arrays), file.name, folder,
               tally);
  }
  if (plan.files.size() > 1) {
    write_index(plan, tally, folder);
  }
  folder.sync();
  tally.add(0);
  temporary.rename(name, parent, name, io::RenameMode::no_replace);
  parent.sync();
  return plan;
}

}  // namespace cairn
