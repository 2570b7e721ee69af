// SPDX-License-Identifier: Apache-2.0
#include "store/internal/parent_use.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>

namespace cairn::store {
namespace {

using Key = std::pair<std::uint64_t, std::uint64_t>;  // Device and inode.

std::atomic<std::uint64_t> g_removals{0};

void remove_if_empty(const MadeLevel& level) noexcept {
  if (level.is_own) {
    [[maybe_unused]] const int ignored =
        level.parent.syscalls().unlink_at(level.parent.fd(), level.name.c_str(), true);
  }
  ++g_removals;  // Afterwards: a thread that read the number before it opened the directory finds another one.
}

}  // namespace

struct ParentUse::Shared {
  std::mutex mutex;  // Protects all below; held while directories are removed, so of this directory only.
  std::size_t users = 0;
  std::deque<MadeLevel> levels;  // They stay where they are.
  std::size_t synced = 0;        // So many of the first.
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
  ++shared.users;
  shared.levels.insert(shared.levels.end(), std::make_move_iterator(levels.begin()),
                       std::make_move_iterator(levels.end()));
  levels.clear();
  return use;
}

ParentUse::~ParentUse() {
  if (!shared_) {
    return;
  }
  const std::lock_guard lock(shared_->mutex);
  if (--shared_->users == 0 && !shared_->levels.empty() && !shared_->is_kept) {
    shared_->is_removed = true;
    for (auto level = shared_->levels.rbegin(); level != shared_->levels.rend(); ++level) {
      remove_if_empty(*level);
    }
  }
}

void ParentUse::sync() {
  std::vector<const MadeLevel*> levels;
  std::size_t end = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    end = shared_->levels.size();
    for (std::size_t i = shared_->synced; i < end; ++i) {
      levels.push_back(&shared_->levels[i]);
    }
  }
  // Without the lock: the next save need not wait for the disk to take its place.
  for (const MadeLevel* level : levels) {
    level->parent.sync();
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->synced = std::max(shared_->synced, end);
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
    remove_if_empty(*level);
  }
}

}  // namespace cairn::store
