// SPDX-License-Identifier: Apache-2.0
#include "io/internal/page_cache.hpp"

#include <sys/uio.h>

#include <algorithm>

namespace cairn::io {

bool seems_cached(int fd, std::uint64_t size_bytes) noexcept {
  constexpr std::uint64_t kMostSamples = 16;
  constexpr std::uint64_t kPageBytes = 4096;
  if (size_bytes == 0) {
    return true;
  }
  const std::uint64_t samples = std::clamp<std::uint64_t>(size_bytes / kPageBytes, 1, kMostSamples);
  for (std::uint64_t i = 0; i < samples; ++i) {
    char byte = 0;
    iovec one{&byte, 1};
    const auto offset = static_cast<off_t>(size_bytes / samples * i + size_bytes / (2 * samples));
    if (::preadv2(fd, &one, 1, offset, RWF_NOWAIT) != 1) {
      return false;
    }
  }
  return true;
}

}  // namespace cairn::io
