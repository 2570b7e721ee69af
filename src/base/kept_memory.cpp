// SPDX-License-Identifier: Apache-2.0
#include "base/internal/kept_memory.hpp"

#include <system_error>

#include <algorithm>
#include <new>
#include <utility>

#include "base/internal/checked.hpp"

namespace cairn {
namespace {

/// From here on blocks lie on huge pages and are kept.
constexpr std::size_t kLargeBytes = std::size_t{2} << 20;

/// How much larger than asked a kept block may be: growing vectors must not hold many times what they need.
constexpr std::size_t kMostWaste = 4;

AlignedMemory make_block(std::size_t bytes) {
  try {
    return AlignedMemory(round_up(bytes, kLargeBytes));
  } catch (const std::system_error&) {
    throw std::bad_alloc();  // What containers and their users expect.
  }
}

}  // namespace

KeptMemory::KeptMemory(std::size_t most_kept_bytes) noexcept : most_kept_bytes_(most_kept_bytes) {}

std::size_t KeptMemory::kept_bytes() const {
  const MutexLock lock(mutex_);
  return kept_bytes_;
}

void* KeptMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes < kLargeBytes || alignment > kLargeBytes) {
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  const MutexLock lock(mutex_);
  const auto fits = [bytes](const AlignedMemory& block) {
    return block.size() >= bytes && block.size() / kMostWaste <= bytes;
  };
  auto best = kept_.end();
  for (auto block = kept_.begin(); block != kept_.end(); ++block) {
    if (fits(*block) && (best == kept_.end() || block->size() < best->size())) {
      best = block;
    }
  }
  AlignedMemory block;
  if (best != kept_.end()) {
    std::swap(*best, kept_.back());
    block = std::move(kept_.back());
    kept_.pop_back();
    kept_bytes_ -= block.size();
  } else {
    block = make_block(bytes);
  }
  void* memory = block.data();
  kept_.reserve(kept_.size() + used_.size() + 1);  // So that giving back never needs memory.
  used_.emplace(memory, std::move(block));
  return memory;
}

void KeptMemory::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  if (bytes < kLargeBytes || alignment > kLargeBytes) {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
    return;
  }
  const MutexLock lock(mutex_);
  auto node = used_.extract(memory);
  AlignedMemory& block = node.mapped();
  if (block.size() <= most_kept_bytes_ - kept_bytes_) {
    kept_bytes_ += block.size();
    kept_.push_back(std::move(block));
  }
}

bool KeptMemory::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
  return this == &other;
}

}  // namespace cairn
