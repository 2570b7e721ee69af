// SPDX-License-Identifier: Apache-2.0
#include "core/save_files.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "core/drop_later.hpp"
#include "core/internal/saves_part.hpp"
#include "store/internal/checkpointable_names.hpp"
#include "store/internal/other_files.hpp"
#include "store/internal/timestamp.hpp"

namespace cairn::core {

SaveItem::SaveItem(Checkpointable what, Registration whose)
    : checkpointable(std::move(what)),
      registration(std::move(whose)),
      handler_id(registration.handler->id()),
      directory(store::directory_of(checkpointable.name())) {}

bool SaveItem::is_of_all_ranks() const noexcept {
  return registration.handler->participation() == Participation::all;
}

SaveFiles::SaveFiles(Operation& operation, std::filesystem::path path, std::vector<SaveItem> items,
                     SaveOptions options, const joint::JointSave* joint)
    : operation_(operation),
      started_at_(operation.services().clock.now()),
      path_(std::move(path)),
      items_(std::move(items)),
      options_(std::move(options)),
      uses_(options_.handler_options.begin_uses()),
      joint_(joint),
      uuid_(joint != nullptr ? joint->uuid() : store::make_uuid(operation.services().options.random)),
      report_(operation.stats()) {}

SaveFiles::~SaveFiles() {
  if (staged_) {
    drop_later(operation_.services_owner(), std::move(staged_));
  }
  if (target_) {
    drop_later(operation_.services_owner(), std::move(target_));
  }
}

SaveProgress SaveFiles::progress() const {
  SaveProgress progress;
  progress.total_bytes = written_.bytes();
  progress.staged_bytes = operation_.plane().staged_bytes;
  progress.written_bytes = operation_.plane().written_bytes;
  return progress;
}

void SaveFiles::end_option_uses() const {
  std::for_each(uses_.begin(), uses_.end(), [](const auto& use) { use.second->end(); });
}

contract::Resources SaveFiles::resources() noexcept {
  const Services& services = operation_.services();
  return {operation_.plane(), services.coordinator, services.devices, options_.handler_options};
}

void SaveFiles::tell(const std::string& problem) noexcept {
  add_problem(problem);
  const auto& tell_program = operation_.services().options.on_problem;
  if (tell_program) {
    tell_program(path_.string(), problem);
  }
}

bool SaveFiles::gives_copies() const noexcept {
  return operation_.services().options.check_handlers;
}

OptionUse* SaveFiles::option_use(std::type_index type) const noexcept {
  const auto found = uses_.find(type);
  return found == uses_.end() ? nullptr : found->second.get();
}

contract::KeptValues& SaveFiles::kept() const noexcept {
  return operation_.services().kept;
}

std::shared_ptr<std::pmr::memory_resource> SaveFiles::plan_memory() const {
  return operation_.services().memory.plans;
}

std::optional<coord::Channel> SaveFiles::channel(const std::string& directory, std::string_view what) const {
  const auto is_shared = [&directory](const SaveItem& item) {
    return item.directory == directory && item.is_of_all_ranks();
  };
  if (joint_ == nullptr || std::none_of(items_.begin(), items_.end(), is_shared)) {
    return std::nullopt;
  }
  return joint_->channel(fmt::format("{}/{}", directory, what));
}

std::optional<std::filesystem::path> SaveFiles::staged_path() const {
  return operation_.services().checkpoint_store().staged_path(path_, uuid_);
}

std::unique_ptr<io::NewFile> SaveFiles::create_file(const std::string& relative,
                                                    const io::NewFileOptions& options) {
  const async::Gate::Visit inside = enter();
  CAIRN_ASSERT(staged_, "files are made in a checkpoint that is there");
  return staged_->create_file(relative, options);
}

void SaveFiles::adopt_file(const std::string& relative) {
  const async::Gate::Visit inside = enter();
  if (directory() == nullptr) {
    throw Error(Errc::not_found, fmt::format("'{}': the checkpoint is not written in a directory", relative));
  }
  staged_->adopt(relative);
  written_.add(store::digest_other_file(*directory(), relative));
}

std::string SaveFiles::place() const {
  const auto* part = options_.handler_options.find<SavesPart>();
  return part == nullptr ? path_.string()
                         : fmt::format("part {} of {}", part->number, part->checkpoint.string());
}

void SaveFiles::record_id(const std::string& directory, std::string_view id) {
  const auto item = std::find_if(items_.begin(), items_.end(),
                                 [&](const SaveItem& each) { return each.directory == directory; });
  CAIRN_ASSERT(item != items_.end(), "an id is recorded for a checkpointable of this save");
  if (!item->registration.handler->has_id(id)) {
    throw Error(Errc::invalid_argument, fmt::format("'{}' (handler {}) does not have the id '{}'",
                                                    item->checkpointable.name(), item->handler_id, id));
  }
  item->handler_id = id;
}

void SaveFiles::look(bool finds) {
  io::Syscalls& syscalls = operation_.services().disk.engine().syscalls();
  const store::Store& store = operation_.services().checkpoint_store();
  target_ = finds ? store.find(syscalls, path_, options_.create_parents)
                  : store.look(syscalls, path_, options_.overwrite, options_.create_parents);
  medium_ = target_ ? target_->medium() : io::Medium::disk;
}

bool SaveFiles::find() {
  io::Syscalls& syscalls = operation_.engine().syscalls();
  target_ = operation_.services().checkpoint_store().find(syscalls, path_, options_.create_parents);
  return target_ != nullptr;
}

async::Gate::Visit SaveFiles::enter() const {
  async::Gate::Visit inside = gate_.try_enter();
  if (!inside) {
    throw Error(Errc::cancelled, operation_.title());
  }
  return inside;
}

void SaveFiles::create(store::StagedOptions options) {
  CAIRN_ASSERT(target_ && !staged_, "a save makes one checkpoint, after the look at its target");
  staged_ = target_->create(operation_.engine(), std::move(options));
  for (const SaveItem& item : items_) {
    staged_->make_directory(item.directory);
  }
}

void SaveFiles::join(store::JoinOptions options) {
  CAIRN_ASSERT(target_ && !staged_, "a rank joins one checkpoint, which it has found");
  staged_ = target_->join(operation_.engine(), std::move(options));
}

void SaveFiles::require_complete(const SaveItem& item, std::string_view remark) const {
  written_.require_complete(item.directory + "/", remark);
}

store::Manifest SaveFiles::describe() const {
  store::Manifest manifest;
  store::set_started(manifest, started_at_);
  store::set_committed(manifest, operation_.services().clock.now());
  manifest.world_size = static_cast<std::uint32_t>(operation_.services().coordinator.size());
  manifest.custom_metadata = options_.custom_metadata;
  manifest.annotations = options_.annotations;
  for (const SaveItem& item : items_) {
    store::CheckpointableEntry entry;
    entry.name = item.checkpointable.name();
    entry.handler_id = item.handler_id;
    entry.directory = item.directory;
    manifest.checkpointables.push_back(std::move(entry));
  }
  return manifest;
}

std::vector<io::FileDigest> SaveFiles::take_digests(bool finds_others,
                                                    const std::set<std::string, std::less<>>& announced) {
  // One that is incomplete was begun after the end of the handler's background phase.
  written_.require_complete("", " before the save was published");
  store::WrittenFiles::Digests written = written_.take_digests();
  std::vector<io::FileDigest> digests;
  if (finds_others && directory() != nullptr) {
    digests = store::digest_other_files(*directory(), written, announced);
  }
  digests.reserve(digests.size() + written.size());
  for (auto& [path, digest] : written) {
    digests.push_back(std::move(digest));
  }
  const auto by_path = [](const io::FileDigest& a, const io::FileDigest& b) { return a.path < b.path; };
  std::sort(digests.begin(), digests.end(), by_path);
  const auto same_path = [](const io::FileDigest& a, const io::FileDigest& b) { return a.path == b.path; };
  CAIRN_ASSERT(std::adjacent_find(digests.begin(), digests.end(), same_path) == digests.end(),
               "a file has one digest");
  return digests;
}

const async::Event& SaveFiles::shut() const noexcept {
  gate_.close();
  return gate_.left();
}

void SaveFiles::abandon() noexcept {
  const MutexLock lock(abandon_mutex_);
  if (staged_) {
    staged_->abandon();
  }
}

std::string SaveFiles::abandonment_problem() {
  const MutexLock lock(abandon_mutex_);
  return staged_ ? staged_->abandonment_problem() : std::string();
}

bool SaveFiles::close() noexcept {
  if (!shut().has_happened()) {
    return false;
  }
  const MutexLock lock(abandon_mutex_);
  staged_.reset();
  target_.reset();
  return true;
}

}  // namespace cairn::core
