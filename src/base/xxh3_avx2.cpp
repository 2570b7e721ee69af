// SPDX-License-Identifier: Apache-2.0

// Compiled for AVX2, which the machine that runs it may lack. So it must include nothing with inline functions that
// other files use too: the linker keeps one copy of those, and it could be the one from here.
#define XXH_INLINE_ALL
#include "base/xxh3_avx2.hpp"

#include <xxhash.h>

namespace cairn {

std::uint64_t xxh3_64_avx2(const void* data, std::size_t bytes) noexcept {
  return XXH3_64bits(data, bytes);
}

Xxh3Pair xxh3_128_avx2(const void* data, std::size_t bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

}  // namespace cairn
