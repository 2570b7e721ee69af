// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include <emmintrin.h>

#include "base/internal/stream_copy.hpp"

namespace cairn {
namespace {

constexpr std::size_t kLineBytes = 64;

/// Below this, the copy fits the caches and is often read again.
constexpr std::size_t kMinStreamedBytes = 4096;

}  // namespace

StreamCopies::~StreamCopies() {
  // Streaming stores are weakly ordered: the thread that is told of the copies next must see them.
  _mm_sfence();
}

void StreamCopies::add(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes < kMinStreamedBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  // Streaming stores want aligned addresses, and whole lines: what is before and after goes the usual way.
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kLineBytes;
  const std::size_t head = misaligned == 0 ? 0 : kLineBytes - misaligned;
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kLineBytes <= bytes; at += kLineBytes) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + at, from + at, bytes - at);
}

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  StreamCopies().add(to, from, bytes);
}

}  // namespace cairn
