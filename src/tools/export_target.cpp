// SPDX-License-Identifier: Apache-2.0
#include "tools/export_target.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "formats/internal/dcp_metadata.hpp"
#include "formats/internal/index.hpp"
#include "handlers/internal/cast_dtype.hpp"
#include "handlers/internal/packed_tree.hpp"
#include "io/internal/check.hpp"
#include "tools/internal/checkpoint_view.hpp"
#include "tools/internal/text.hpp"

namespace cairn::tools {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Errc::invalid_argument, why);
}

/// The target's path with a last component that is a name, where nothing is yet.
std::filesystem::path free_path(const std::filesystem::path& target) {
  io::require_path(target);
  std::filesystem::path named = io::named_path(target);
  if (std::filesystem::exists(std::filesystem::symlink_status(named))) {
    throw Error(Errc::already_exists, named.string());
  }
  return named;
}

/// The directory that the target is to be in.
io::Directory open_parent(const std::filesystem::path& source, const std::filesystem::path& target) {
  const std::filesystem::path path =
      target.has_parent_path() ? target.parent_path() : std::filesystem::absolute(target).parent_path();
  io::Directory parent = io::Directory::open(io::posix_syscalls(), path);
  store::require_outside_checkpoints(parent, target);
  if (std::filesystem::is_directory(source) && std::filesystem::equivalent(source, path)) {
    refuse(fmt::format("'{}' lies in the folder that is exported", target.string()));
  }
  return parent;
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

Description described(const CheckpointMetadata& metadata, const std::string& checkpointable,
                      const ExportOptions& options, HeldArrays* held) {
  const CheckpointView view(metadata);
  if (held != nullptr) {
    return view.description(checkpointable, options.layouts, [held](std::string path, const Array& array) {
      held->emplace(std::move(path), array);
    });
  }
  const ItemMetadata& item = metadata.items.at(checkpointable);
  Description description = item.description();
  const auto add_object = [&](std::string_view path) {
    description.values.push_back({std::string(path), std::string(name(formats::EntryKind::unread)), {}});
  };
  if (item.handler_id == kStateDictId &&
      view.files(checkpointable)->contains(std::string(kStateDictCommonFile))) {
    add_object(formats::kCommonStatePath);
  }
  for (const ArrayEntry& array : description.arrays) {
    if (is_object(item, array)) {
      add_object(array.name);
    }
  }
  return description;
}

}  // namespace

ChosenPaths::ChosenPaths(const std::vector<std::string>& only) {
  for (const std::string& text : only) {
    patterns_.push_back({detail::PathPattern(text, "what is exported", detail::KeyJoiners::slash_or_point)});
  }
}

bool ChosenPaths::choose(std::string_view path) {
  bool is_chosen = patterns_.empty();
  for (Pattern& each : patterns_) {
    const bool matches = each.pattern.matches(path);
    each.is_used = each.is_used || matches;
    is_chosen = is_chosen || matches;
    if (detail::likeness(each.pattern.text(), path) > detail::likeness(each.pattern.text(), each.nearest)) {
      each.nearest = path;
    }
  }
  return is_chosen;
}

bool ChosenPaths::leave_out(std::string_view path, std::string_view why) {
  for (const Pattern& each : patterns_) {
    if (each.pattern.text() == path) {
      refuse(fmt::format("'{}' cannot be exported so: {}", path, why));
    }
  }
  return choose(path);
}

void ChosenPaths::require_used() const {
  for (const Pattern& each : patterns_) {
    if (!each.is_used) {
      refuse(fmt::format("the pattern '{}' of what is exported matches no path that is stored{}",
                         each.pattern.text(),
                         each.nearest.empty() ? "" : fmt::format("; the nearest: '{}'", each.nearest)));
    }
  }
}

std::string choose_item(const CheckpointMetadata& metadata, const ExportOptions& options) {
  if (!options.checkpointable.empty()) {
    static_cast<void>(metadata.at(options.checkpointable));  // Or it lists what there is.
    return options.checkpointable;
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
             : fmt::format("'{}' have arrays; choose one with --name or ExportOptions::checkpointable",
                           fmt::join(with_arrays, "', '")));
}

Description plan_arrays(ExportPlan& plan, const CheckpointMetadata& metadata, const ExportOptions& options,
                        ChosenPaths& chosen, HeldArrays* held) {
  plan.checkpointable = choose_item(metadata, options);
  const ItemMetadata& item = metadata.items.at(plan.checkpointable);
  if (const std::string problem = problem_text(item); !problem.empty()) {
    throw Error(Errc::malformed_metadata, fmt::format("'{}': {}", plan.checkpointable, problem));
  }
  Description description = described(metadata, plan.checkpointable, options, held);
  std::vector<DescribedValue> lacking;
  for (const DescribedValue& one : description.left_out) {
    if (chosen.leave_out(one.name, one.kind)) {
      lacking.push_back(one);
    }
  }
  if (!options.leave_out) {
    require_all_read(metadata.path, lacking);
  }
  plan.notes = notes_of(description);
  const auto add = [&plan](std::string_view path, DType dtype, const Shape& shape) {
    plan.arrays.push_back({std::string(path), "", dtype, shape, checked_byte_count(path, dtype, shape)});
  };
  for (const ArrayEntry& array : description.arrays) {
    if (is_object(item, array) || !chosen.choose(array.name)) {
      continue;
    }
    if (options.first_names_only && !array.alias_of.empty()) {
      plan.aliases.emplace_back(array.name);
      continue;
    }
    const DType dtype =
        options.dtype ? detail::cast_dtype(array.dtype, *options.dtype).value_or(array.dtype) : array.dtype;
    add(array.name, dtype, array.shape);
  }
  for (const auto& [path, array] : held != nullptr ? *held : HeldArrays()) {
    if (chosen.choose(path)) {
      add(path, array.dtype(), array.shape());
    }
  }
  return description;
}

Region exported_region(const ArrayReader& reader, const ExportedArray& array) {
  Region region = whole_region(array.path, AbstractArray(array.shape, array.dtype));
  region.stored = reader.form(array.path).dtype;
  return region;
}

Tally::Tally(const ExportPlan& plan, const ExportOptions& options) : options_(options) {
  for (const ExportedArray& array : plan.arrays) {
    total_bytes_ += array.bytes;
  }
}

void Tally::add(std::uint64_t bytes) {
  done_bytes_ += bytes;
  if (options_.progress) {
    options_.progress(done_bytes_, total_bytes_);
  }
}

ExportStaging::ExportStaging(const std::filesystem::path& source, const std::filesystem::path& target,
                             bool is_folder)
    : named_(free_path(target)),
      parent_(open_parent(source, named_)),
      own_(io::posix_syscalls(), 1),
      staged_(store::StagedDirectory::create(own_.plane().engine, named_)) {
  if (is_folder) {
    made_ = staged_.directory()->make_directory(target_name());
  }
}

io::FileHandle ExportStaging::create_file(const std::string& name, std::uint64_t bytes) const {
  io::FileHandle file = folder().create_file(name);
  const int reserved = io::uninterrupted([&] { return file.syscalls().allocate(file.fd(), bytes); });
  if (reserved < 0 && !io::is_unsupported(reserved)) {
    throw_errno(-reserved, "fallocate", folder().path() / name);
  }
  return file;
}

void ExportStaging::finish(io::FileHandle& file, const std::string& name) const {
  io::require(file.syscalls().sync(file.fd()), "fsync", folder().path() / name);
  io::require(file.close(), "close", folder().path() / name);
}

void ExportStaging::publish() const {
  folder().sync();
  staged_.directory()->rename(target_name(), parent_, target_name(), io::RenameMode::no_replace);
  parent_.sync();
}

}  // namespace cairn::tools
