// SPDX-License-Identifier: Apache-2.0
#include "store/internal/parent_use.hpp"

#include <atomic>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>

namespace cairn::store {
namespace {

using Key = std::pair<std::uint64_t, std::uint64_t>;  // Device and inode.

std::atomic<std::uint64_t> g_removals{0};

}  // namespace

struct ParentUse::Shared {
  std::mutex mutex;  // Protects all below; held while the file system works, so of this directory only.
  std::size_t users = 0;
  std::vector<MadeLevel> levels;
  bool is_synced = true;
  bool is_kept = false;
  bool is_removed = false;

  /// Of all directories in which saves of this process are under way.
  struct Table {
    std::mutex mutex;
    std::map<Key, std::weak_ptr<Shared>> entries;
  };

  static Table& table() {
    static Table& table = *new Table;  // Never destroyed: saves may end after static objects.
    return table;
  }

  static std::shared_ptr<Shared> of(io::FileId id) {
    Table& all = table();
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.entries, [](const auto& each) { return each.second.expired(); });
    std::weak_ptr<Shared>& entry = all.entries[{id.device, id.inode}];
    std::shared_ptr<Shared> shared = entry.lock();
    if (!shared) {
      shared = std::make_shared<Shared>();
      entry = shared;
    }
    return shared;
  }
};

std::shared_ptr<ParentUse> ParentUse::join(io::FileId id, std::vector<MadeLevel>&& levels) {
  std::shared_ptr<ParentUse> use(new ParentUse(Shared::of(id)));
  Shared& shared = *use->shared_;
  const std::lock_guard lock(shared.mutex);
  if (shared.is_removed) {
    use->shared_.reset();  // It has not joined.
    return nullptr;
  }
  shared.is_synced = shared.is_synced && levels.empty();
  shared.levels.insert(shared.levels.end(), std::make_move_iterator(levels.begin()),
                       std::make_move_iterator(levels.end()));
  levels.clear();
  ++shared.users;
  return use;
}

ParentUse::~ParentUse() {
  if (!shared_) {
    return;
  }
  const std::lock_guard lock(shared_->mutex);
  if (--shared_->users == 0 && !shared_->levels.empty() && !shared_->is_kept) {
    shared_->is_removed = true;
    remove_empty_levels(shared_->levels);
  }
}

void ParentUse::sync() {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->is_synced) {
    for (const MadeLevel& level : shared_->levels) {
      level.parent.sync();
    }
    shared_->is_synced = true;
  }
}

void ParentUse::keep() noexcept {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_kept = true;
}

std::uint64_t ParentUse::removals() noexcept {
  return g_removals;
}

void remove_empty_levels(const std::vector<MadeLevel>& levels) noexcept {
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    if (level->is_own) {
      [[maybe_unused]] const int ignored =
          level->parent.syscalls().unlink_at(level->parent.fd(), level->name.c_str(), true);
    }
    // Afterwards: who has read the number before he opened the directory finds another one.
    ++g_removals;
  }
}

}  // namespace cairn::store
