// SPDX-License-Identifier: Apache-2.0
#include "io/internal/mapped_files.hpp"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/internal/aligned_memory.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/mapped_file.hpp"

namespace cairn::io {
namespace {

/// A file in use, and the beginning of its mapping.
struct FileInUse {
  std::shared_ptr<void> use;
  std::shared_ptr<const std::span<std::byte>> whole;
  std::shared_ptr<void> hold;  // Goes before the memory.
  std::span<std::byte> bytes;
};

/// As much of a file is made ready before anybody is asked whether it is still there.
constexpr std::size_t kReadyBytes = std::size_t{32} << 20;

/// Returns null where a device fails, too: a copy from it will say how.
std::shared_ptr<void> pin_quietly(const MemoryHook& pin, std::span<std::byte> memory) noexcept {
  try {
    return pin(memory);
  } catch (...) {
    CAIRN_PROBE("io.device_failed_to_pin");
    return nullptr;
  }
}

}  // namespace

std::shared_ptr<const std::span<std::byte>> MappedFiles::map(const FileHandle& file, std::uint64_t bytes,
                                                             const std::filesystem::path& path,
                                                             const MemoryHook& pin, std::string& refusal) {
  FileStatus status;
  require(uninterrupted([&] { return file.syscalls().status(file.fd(), status); }), "stat", path);
  const Key key(status.id.device, status.id.inode);
  const auto size = static_cast<std::size_t>(bytes);
  const auto part = std::make_shared<FileInUse>();
  std::shared_ptr<const std::span<std::byte>> mapped;
  std::shared_ptr<void> unpinned;  // Goes before the memory, and both without the lock.
  MutexLock lock(mutex_);
  Entry* entry = &entries_.try_emplace(key).first->second;
  if (!entry->use) {
    entry->use = std::make_shared<Key>(key);
    entry->file = FileHandle(file.syscalls(), ::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
  }
  part->use = entry->use;  // The entry stays while it is in use.
  entry->round = round_;
  if (!entry->memory || entry->memory->size() < size) {
    lock.unlock();
    mapped = map_to_fill(file, bytes, refusal);
    lock.lock();
    entry->hold.swap(unpinned);
    entry->memory.swap(mapped);
    entry->is_ready = false;
    entry->is_refused = false;
  }
  if (pin && entry->memory && !entry->hold) {
    CAIRN_PROBE("io.mapping_not_pinned");
    refusal = entry->is_refused ? "a device could not pin its memory" : "its memory is not pinned yet";
    if (!entry->is_refused) {
      entry->pin = pin;
    }
  } else if (entry->memory) {
    part->whole = entry->memory;
    part->hold = entry->hold;
    CAIRN_ASSERT(part->whole->size() >= size, "what is given out of a mapping is no longer than the mapping");
    part->bytes = part->whole->first(size);
  }
  lock.unlock();
  return {part, &part->bytes};
}

bool MappedFiles::is_in_use(FileId file) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({file.device, file.inode});
  return found != entries_.end() && found->second.is_in_use();
}

void MappedFiles::make_ready() {
  MutexLock lock(mutex_);
  for (;;) {
    const auto next = std::find_if(entries_.begin(), entries_.end(),
                                   [](const auto& entry) { return entry.second.has_work(); });
    if (next == entries_.end()) {
      return;
    }
    const Key key = next->first;
    std::shared_ptr<const std::span<std::byte>> memory = next->second.memory;
    const bool is_ready = std::exchange(next->second.is_ready, true);
    const MemoryHook pin = std::exchange(next->second.pin, {});
    const auto readying = readying_.insert(key);
    for (std::size_t at = is_ready ? memory->size() : 0; at < memory->size() && entries_.contains(key);
         at += kReadyBytes) {
      const std::span<const std::byte> piece =
          memory->subspan(at, std::min(kReadyBytes, memory->size() - at));
      lock.unlock();
      use_large_pages(piece.data(), piece.size());
      map_pages(piece.data(), piece.size());
      lock.lock();
    }
    const bool is_to_pin = pin && entries_.contains(key);
    lock.unlock();
    std::shared_ptr<void> hold = is_to_pin ? pin_quietly(pin, *memory) : nullptr;
    lock.lock();
    if (const auto done = entries_.find(key);
        is_to_pin && done != entries_.end() && done->second.memory == memory) {
      CAIRN_ASSERT(!done->second.hold, "a mapping is pinned once");
      done->second.is_refused = hold == nullptr;
      done->second.hold.swap(hold);
    }
    lock.unlock();
    hold.reset();  // Unpinned and unmapped without the lock, where it has gone meanwhile.
    memory.reset();
    lock.lock();
    readying_.erase(readying);
    readied_.notify_all();
  }
}

void MappedFiles::drop_removed() {
  std::map<Key, Entry> gone;  // Unmapped without the lock.
  MutexLock lock(mutex_);
  for (auto each = entries_.begin(); each != entries_.end();) {
    const auto next = std::next(each);
    const FileHandle& file = each->second.file;
    FileStatus status;
    if (file.is_open() && uninterrupted([&] { return file.syscalls().status(file.fd(), status); }) == 0 &&
        status.links == 0) {
      gone.insert(entries_.extract(each));
    }
    each = next;
  }
  const auto is_gone = [&gone](const Key& key) { return gone.contains(key); };
  while (std::any_of(readying_.begin(), readying_.end(), is_gone)) {
    readied_.wait(lock);
  }
}

void MappedFiles::begin_round() {
  std::map<Key, Entry> gone;  // Unmapped without the lock.
  const MutexLock lock(mutex_);
  ++round_;
  for (auto each = entries_.begin(); each != entries_.end();) {
    const auto next = std::next(each);
    CAIRN_ASSERT(each->second.round <= round_, "no mapping was used in a round that has not begun");
    if (each->second.round + kRounds < round_ && !each->second.is_in_use()) {
      gone.insert(entries_.extract(each));
    }
    each = next;
  }
}

std::size_t MappedFiles::count() const {
  const MutexLock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& entry) { return entry.second.memory != nullptr; }));
}

}  // namespace cairn::io
