// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace cairn {

/// Anonymous pages of memory: page-aligned, zero until written, with huge pages where the kernel gives them.
///
/// Invariant: data() is aligned to 4096 bytes; to 2 MiB when size() is 2 MiB or more.
/// Threads:   a value; moving from it leaves it empty.
class AlignedMemory {
 public:
  AlignedMemory() = default;

  /// Reserves `bytes` (rounded up to a page). Pages are not touched: call `touch` to pay for them now.
  ///
  /// Errors: ENOMEM.
  explicit AlignedMemory(std::size_t bytes);
  ~AlignedMemory();
  AlignedMemory(AlignedMemory&& other) noexcept;
  AlignedMemory& operator=(AlignedMemory&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Maps memory as mmap(2) does, at an address where the kernel can use large pages. Null with errno where it fails.
[[nodiscard]] std::byte* map_aligned(std::size_t bytes, int protection, int flags, int fd) noexcept;

/// Makes the pages of `[data, data + bytes)` present, so that later writes take no page faults.
/// Does nothing where the kernel cannot (before 5.14): the pages then come at the first write.
void touch(std::byte* data, std::size_t bytes) noexcept;

/// Maps the pages of memory that are present already, and changes none: later accesses take no page faults. Does
/// nothing where the kernel cannot.
void map_pages(const std::byte* data, std::size_t bytes) noexcept;

/// Moves the bytes of `[data, data + bytes)` of a file in memory into large pages, where there are some and the kernel
/// can (6.1), also where the file system has small ones. Whoever reads or fills the bytes meanwhile waits for moments.
void use_large_pages(const std::byte* data, std::size_t bytes) noexcept;

}  // namespace cairn
