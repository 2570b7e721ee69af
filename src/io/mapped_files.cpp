// SPDX-License-Identifier: Apache-2.0
#include "io/internal/mapped_files.hpp"

#include <algorithm>
#include <utility>

#include "base/internal/aligned_memory.hpp"
#include "base/internal/assert.hpp"
#include "io/internal/check.hpp"
#include "io/internal/mapped_file.hpp"

namespace cairn::io {
namespace {

/// The beginning of a mapping, which it keeps.
struct Beginning {
  std::shared_ptr<const std::span<std::byte>> whole;
  std::span<std::byte> bytes;
};

std::shared_ptr<const std::span<std::byte>> first_of(std::shared_ptr<const std::span<std::byte>> whole,
                                                     std::size_t bytes) {
  const auto part = std::make_shared<Beginning>();
  CAIRN_ASSERT(bytes <= whole->size(), "the beginning of a mapping is no longer than the mapping");
  part->bytes = whole->first(bytes);
  part->whole = std::move(whole);
  return {part, &part->bytes};
}

}  // namespace

std::shared_ptr<const std::span<std::byte>> MappedFiles::map(const FileHandle& file, std::uint64_t bytes,
                                                             const std::filesystem::path& path,
                                                             std::string& refusal) {
  FileStatus status;
  require(uninterrupted([&] { return file.syscalls().status(file.fd(), status); }), "stat", path);
  const Key key(status.id.device, status.id.inode);
  const auto size = static_cast<std::size_t>(bytes);
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && found->second.memory->size() >= size) {
      found->second.round = round_;
      return first_of(found->second.memory, size);
    }
  }
  std::shared_ptr<const std::span<std::byte>> memory = map_to_fill(file, bytes, refusal);
  if (!memory) {
    return nullptr;
  }
  const MutexLock lock(mutex_);
  entries_[key] = {memory, round_, false, 1};
  return first_of(std::move(memory), size);
}

bool MappedFiles::is_in_use(FileId file) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({file.device, file.inode});
  return found != entries_.end() && found->second.memory.use_count() > found->second.owners;
}

void MappedFiles::make_ready() {
  std::shared_ptr<const std::span<std::byte>> memory;
  Key key;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (const auto done = entries_.find(key); memory && done != entries_.end()) {
        done->second.owners = 1;
      }
      memory.reset();
      const auto next = std::find_if(entries_.begin(), entries_.end(),
                                     [](const auto& entry) { return !entry.second.is_ready; });
      if (next == entries_.end()) {
        return;
      }
      key = next->first;
      memory = next->second.memory;
      next->second.is_ready = true;
      next->second.owners = 2;
    }
    use_large_pages(memory->data(), memory->size());
    map_pages(memory->data(), memory->size());
  }
}

void MappedFiles::begin_round() {
  std::map<Key, Entry> gone;  // Unmapped without the lock.
  const MutexLock lock(mutex_);
  ++round_;
  for (auto each = entries_.begin(); each != entries_.end();) {
    const auto next = std::next(each);
    CAIRN_ASSERT(each->second.round <= round_, "no mapping was used in a round that has not begun");
    if (each->second.round + kRounds < round_) {
      gone.insert(entries_.extract(each));
    }
    each = next;
  }
}

void MappedFiles::clear() {
  std::map<Key, Entry> gone;
  const MutexLock lock(mutex_);
  gone.swap(entries_);
}

std::size_t MappedFiles::count() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace cairn::io
