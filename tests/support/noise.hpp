// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace cairn::testing {

/// Bytes that nobody guesses; the same for the same seed.
inline std::vector<std::byte> noise(std::size_t bytes, unsigned seed = 1) {
  std::vector<std::byte> values(bytes);
  std::minstd_rand random(seed);
  for (std::byte& value : values) {
    value = static_cast<std::byte>(random());
  }
  return values;
}

}  // namespace cairn::testing
