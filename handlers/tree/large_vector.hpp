// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace cairn::detail {

/// Puts large blocks on huge pages: on virtual machines the first touch of 512 small pages takes several times as
/// long as that of a huge one, and longer than all else that is done with the plan of a save.
template <class T>
class LargePageAllocator {
 public:
  using value_type = T;

  LargePageAllocator() = default;

  template <class Other>
  LargePageAllocator(const LargePageAllocator<Other>&) noexcept {}  // NOLINT: allocators convert.

  [[nodiscard]] T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);  // Below 2^63: std::vector sees to that.
    if (bytes < kHugePageBytes) {
      return static_cast<T*>(::operator new(bytes));
    }
    const std::size_t whole = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    void* memory = ::operator new (whole, std::align_val_t{kHugePageBytes});
    ::madvise(memory, whole, MADV_HUGEPAGE);  // Advice: small pages serve as well.
    return static_cast<T*>(memory);
  }

  void deallocate(T* memory, std::size_t count) noexcept {
    if (count * sizeof(T) < kHugePageBytes) {
      ::operator delete(memory);
    } else {
      ::operator delete (memory, std::align_val_t{kHugePageBytes});
    }
  }

  template <class Other>
  bool operator==(const LargePageAllocator<Other>&) const noexcept {
    return true;
  }

 private:
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
};

template <class T>
using LargeVector = std::vector<T, LargePageAllocator<T>>;

}  // namespace cairn::detail
