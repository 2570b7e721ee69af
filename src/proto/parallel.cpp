// SPDX-License-Identifier: Apache-2.0
#include "proto/parallel.hpp"

#include <algorithm>
#include <cstdint>
#include <thread>

namespace cairn::proto {

unsigned threads_for(std::uint64_t bytes, unsigned wanted) {
  if (wanted != 0) {
    return wanted;
  }
  constexpr std::uint64_t kMostBytesOfOneThread = std::uint64_t{1} << 20;
  return bytes < kMostBytesOfOneThread ? 1 : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace cairn::proto
