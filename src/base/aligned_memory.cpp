// SPDX-License-Identifier: Apache-2.0
#include "base/internal/aligned_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"

namespace cairn {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr int kMadviseCollapse = 25;  // MADV_COLLAPSE of Linux 6.1; not in the headers of older systems.

}  // namespace

std::byte* map_aligned(std::size_t bytes, int protection, int flags, int fd) noexcept {
  const std::size_t wanted = round_up(bytes, kPageBytes);
  const std::size_t alignment = wanted >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  const std::size_t reserved = wanted + (alignment - kPageBytes);  // Room to cut an aligned piece out of.
  void* raw = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    return nullptr;
  }
  auto* begin = static_cast<std::byte*>(raw);
  const std::size_t head =
      round_up(reinterpret_cast<std::uintptr_t>(raw), alignment) - reinterpret_cast<std::uintptr_t>(raw);
  if (head != 0) {
    ::munmap(begin, head);
  }
  if (const std::size_t tail = reserved - head - wanted; tail != 0) {
    ::munmap(begin + head + wanted, tail);
  }
  begin += head;
  if (::mmap(begin, bytes, protection, flags | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int refusal = errno;
    ::munmap(begin, wanted);
    errno = refusal;
    return nullptr;
  }
  return begin;
}

AlignedMemory::AlignedMemory(std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  const std::size_t wanted = round_up(bytes, kPageBytes);
  data_ = map_aligned(wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (data_ == nullptr) {
    throw_errno(errno, "mmap", "anonymous memory");
  }
  size_ = wanted;
  if (wanted >= kHugePageBytes) {
    ::madvise(data_, size_, MADV_HUGEPAGE);  // Advice: small pages serve as well.
  }
}

AlignedMemory::~AlignedMemory() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

AlignedMemory::AlignedMemory(AlignedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedMemory& AlignedMemory::operator=(AlignedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

namespace {

void advise(const std::byte* data, std::size_t bytes, int advice) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(data) & ~(kPageBytes - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(data) + bytes;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

void touch(std::byte* data, std::size_t bytes) noexcept {
  advise(data, bytes, MADV_POPULATE_WRITE);
}

void map_pages(const std::byte* data, std::size_t bytes) noexcept {
  advise(data, bytes, MADV_POPULATE_READ);
}

void use_large_pages(const std::byte* data, std::size_t bytes) noexcept {
  advise(data, bytes, kMadviseCollapse);
}

}  // namespace cairn
