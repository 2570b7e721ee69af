// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn {

/// An XXH3-128 as two numbers.
struct Xxh3Pair {
  std::uint64_t high;
  std::uint64_t low;
};

/// XXH3-64 of `bytes` bytes, with the widest vectors of this processor that pay.
[[nodiscard]] std::uint64_t xxh3_64(const void* data, std::size_t bytes) noexcept;
/// XXH3-128, likewise.
[[nodiscard]] Xxh3Pair xxh3_128(const void* data, std::size_t bytes) noexcept;

}  // namespace cairn
