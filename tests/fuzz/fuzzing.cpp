// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzzing.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>

#include <malloc.h>

namespace cairn::fuzz {
namespace {

constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

// Counted by the operators below, which replace those of the program. libFuzzer has a thread of its own.
std::atomic<std::size_t> bytes_in_use{0};
std::atomic<std::size_t> most_bytes_in_use{kUnbounded};

void* allocate_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t most = most_bytes_in_use.load(std::memory_order_relaxed);
  const std::size_t used = bytes_in_use.load(std::memory_order_relaxed);
  require(most == kUnbounded || (used <= most && bytes <= most - used),
          "memory is bounded by the input's size");
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(std::max<std::size_t>(bytes, 1))
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory != nullptr) {
    bytes_in_use.fetch_add(::malloc_usable_size(memory), std::memory_order_relaxed);
  }
  return memory;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* memory = allocate_or_null(bytes, alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) {
    bytes_in_use.fetch_sub(::malloc_usable_size(memory), std::memory_order_relaxed);
    std::free(memory);
  }
}

}  // namespace

void require(bool holds, const char* claim) noexcept {
  if (!holds) {
    std::fprintf(stderr, "fuzz: broken: %s\n", claim);
    std::abort();
  }
}

Verdicts& verdicts() noexcept {
  static Verdicts counts;
  return counts;
}

bool is_refusal(const Error& error, std::initializer_list<Errc> codes) noexcept {
  return !error.detail().empty() &&
         std::any_of(codes.begin(), codes.end(), [&](Errc code) { return error.code() == code; });
}

MemoryBound::MemoryBound(std::size_t most_bytes) noexcept {
  most_bytes_in_use = bytes_in_use + most_bytes;
}

MemoryBound::~MemoryBound() {
  most_bytes_in_use = kUnbounded;
}

}  // namespace cairn::fuzz

// All forms, also those whose default calls another one: sanitizers bring their own of each.
using Alignment = std::align_val_t;

void* operator new(std::size_t bytes) {
  return cairn::fuzz::allocate(bytes, 1);
}

void* operator new[](std::size_t bytes) {
  return cairn::fuzz::allocate(bytes, 1);
}

void* operator new(std::size_t bytes, Alignment alignment) {
  return cairn::fuzz::allocate(bytes, static_cast<std::size_t>(alignment));
}

void* operator new[](std::size_t bytes, Alignment alignment) {
  return cairn::fuzz::allocate(bytes, static_cast<std::size_t>(alignment));
}

void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return cairn::fuzz::allocate_or_null(bytes, 1);
}

void* operator new[](std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return cairn::fuzz::allocate_or_null(bytes, 1);
}

void operator delete(void* memory) noexcept {
  cairn::fuzz::release(memory);
}

void operator delete[](void* memory) noexcept {
  cairn::fuzz::release(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  cairn::fuzz::release(memory);
}

void operator delete[](void* memory, std::size_t /*bytes*/) noexcept {
  cairn::fuzz::release(memory);
}

void operator delete(void* memory, Alignment /*alignment*/) noexcept {
  cairn::fuzz::release(memory);
}

void operator delete[](void* memory, Alignment /*alignment*/) noexcept {
  cairn::fuzz::release(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/, Alignment /*alignment*/) noexcept {
  cairn::fuzz::release(memory);
}

void operator delete[](void* memory, std::size_t /*bytes*/, Alignment /*alignment*/) noexcept {
  cairn::fuzz::release(memory);
}

void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept {
  cairn::fuzz::release(memory);
}

void operator delete[](void* memory, const std::nothrow_t& /*tag*/) noexcept {
  cairn::fuzz::release(memory);
}
