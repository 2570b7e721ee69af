// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory_resource>
#include <vector>

#include "base/internal/aligned_memory.hpp"
#include "base/internal/mutex.hpp"

namespace cairn {

/// Memory for large working data that is made again and again, such as the plan of a save: blocks of 2 MiB or more
/// lie on huge pages and are kept when they are given back. On virtual machines the first touch of a page may take
/// longer than all that is done with it.
///
/// Invariant: not more than `most_kept_bytes` are kept in addition to the blocks in use.
/// Threads:   may be used by several at once.
/// Errors:    std::bad_alloc.
class KeptMemory final : public std::pmr::memory_resource {
 public:
  explicit KeptMemory(std::size_t most_kept_bytes) noexcept;

  /// Returns what is kept now, in bytes.
  [[nodiscard]] std::size_t kept_bytes() const;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  const std::size_t most_kept_bytes_;
  mutable Mutex mutex_;
  std::size_t kept_bytes_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::map<void*, AlignedMemory> used_ CAIRN_GUARDED_BY(mutex_);
  std::vector<AlignedMemory> kept_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn
