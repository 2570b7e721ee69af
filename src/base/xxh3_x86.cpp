// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/internal/xxh3.hpp"
#include "base/xxh3_avx2.hpp"

namespace cairn {
namespace {

// Not by the dispatch of libxxhash: it takes AVX-512 where there is some, hashes no faster, and what runs
// concurrently was seen to take several times as long.
bool has_avx2() noexcept {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

}  // namespace

std::uint64_t xxh3_64(const void* data, std::size_t bytes) noexcept {
  return has_avx2() ? xxh3_64_avx2(data, bytes) : XXH3_64bits(data, bytes);
}

Xxh3Pair xxh3_128(const void* data, std::size_t bytes) noexcept {
  if (has_avx2()) {
    return xxh3_128_avx2(data, bytes);
  }
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

}  // namespace cairn
