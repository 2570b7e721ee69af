// SPDX-License-Identifier: Apache-2.0
#include "store/internal/parent_use.hpp"

#include <atomic>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "base/internal/assert.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/per_process.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"

namespace cairn::store {
namespace {

using Key = std::pair<std::uint64_t, std::uint64_t>;  // Device and inode.

std::atomic<std::uint64_t> g_removals{0};

}  // namespace

struct ParentUse::Shared {
  explicit Shared(Key id) : key(id) {}

  const Key key;
  Mutex mutex;  // Held while the directory is removed, so of this directory only.
  std::size_t users CAIRN_GUARDED_BY(mutex) = 0;
  std::optional<Made> made CAIRN_GUARDED_BY(mutex);  // Once set, it stays.
  bool is_synced CAIRN_GUARDED_BY(mutex) = false;
  bool is_kept CAIRN_GUARDED_BY(mutex) = false;
  bool is_removed CAIRN_GUARDED_BY(mutex) = false;

  /// The uses of all directories in which saves of this process are under way.
  struct Table {
    Mutex mutex;
    std::map<Key, std::weak_ptr<Shared>> entries CAIRN_GUARDED_BY(mutex);
  };

  /// Never destroyed: saves may end after static objects.
  static Table& table() {
    static constinit PerProcess<Table> tables;
    return tables.get();
  }

  static std::shared_ptr<Shared> of(io::FileId id) {
    Table& all = table();
    const MutexLock lock(all.mutex);
    std::erase_if(all.entries, [](const auto& each) { return each.second.expired(); });
    const Key key{id.device, id.inode};
    std::weak_ptr<Shared>& entry = all.entries[key];
    std::shared_ptr<Shared> shared = entry.lock();
    if (!shared) {
      shared = std::make_shared<Shared>(key);
      entry = shared;
    }
    return shared;
  }

  [[nodiscard]] bool may_be_removed() const CAIRN_REQUIRES(mutex) {
    return users == 0 && !is_kept && made && made->is_own;
  }

  /// Takes it away when it is empty. The next directory may get its number at once: whoever joins that one finds
  /// nothing of this.
  void remove() noexcept CAIRN_REQUIRES(mutex) {
    CAIRN_ASSERT(users == 0 && !is_kept && !is_removed, "a directory is removed once, when nobody uses it");
    is_removed = true;
    CAIRN_PROBE("store.made_directory_removed");
    const io::Directory& parent = *made->parent;
    const char* name = made->name.c_str();
    [[maybe_unused]] const int ignored =
        io::uninterrupted([&] { return parent.syscalls().unlink_at(parent.fd(), name, true); });
    ++g_removals;  // Afterwards: who has read the number before he opened the directory finds another one.
    Table& all = table();
    const MutexLock lock(all.mutex);
    all.entries.erase(key);
  }
};

ParentUse::ParentUse(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}

std::shared_ptr<ParentUse> ParentUse::join(io::FileId id) {
  std::shared_ptr<ParentUse> use(new ParentUse(nullptr));
  // Outlives the lock: those that have removed the directory may have let go of it meanwhile.
  const std::shared_ptr<Shared> shared = Shared::of(id);
  const MutexLock lock(shared->mutex);
  if (shared->is_removed) {
    CAIRN_PROBE("store.parent_was_removed_meanwhile");
    return nullptr;
  }
  ++shared->users;
  use->shared_ = shared;
  return use;
}

std::shared_ptr<ParentUse> ParentUse::join(io::FileId id, Made made) {
  std::shared_ptr<ParentUse> use = join(id);
  if (use) {
    const MutexLock lock(use->shared_->mutex);
    if (!use->shared_->made) {
      use->shared_->made = std::move(made);
    } else if (made.is_own) {
      CAIRN_PROBE("store.parent_seen_before_its_maker");
      use->shared_->made->is_own = true;  // Somebody had seen it before the one that made it came here.
    }
  }
  return use;
}

ParentUse::~ParentUse() {
  if (!shared_) {
    return;
  }
  {
    const MutexLock lock(shared_->mutex);
    CAIRN_ASSERT(shared_->users > 0, "whoever lets go of a directory has used it");
    --shared_->users;
    if (shared_->may_be_removed()) {
      shared_->remove();
    }
  }
  shared_.reset();  // With the last one goes the use of the directory above.
}

void ParentUse::sync() {
  std::shared_ptr<const io::Directory> parent;
  std::shared_ptr<ParentUse> above;
  {
    const MutexLock lock(shared_->mutex);
    if (!shared_->made) {
      return;
    }
    above = shared_->made->above;
    if (!shared_->is_synced) {
      parent = shared_->made->parent;
    }
  }
  // Without the lock: the next save need not wait for the disk to take its place.
  above->sync();
  if (parent) {
    parent->sync();
    const MutexLock lock(shared_->mutex);
    shared_->is_synced = true;
  }
}

void ParentUse::keep() noexcept {
  std::shared_ptr<ParentUse> above;
  {
    const MutexLock lock(shared_->mutex);
    shared_->is_kept = true;
    if (shared_->made) {
      above = shared_->made->above;
    }
  }
  if (above) {
    above->keep();
  }
}

std::uint64_t ParentUse::removals() noexcept {
  return g_removals;
}

}  // namespace cairn::store
