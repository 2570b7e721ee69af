// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/internal/xxh3.hpp"

namespace cairn {

std::uint64_t xxh3_64(const void* data, std::size_t bytes) noexcept {
  return XXH3_64bits(data, bytes);
}

Xxh3Pair xxh3_128(const void* data, std::size_t bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

}  // namespace cairn
