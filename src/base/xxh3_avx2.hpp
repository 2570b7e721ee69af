// SPDX-License-Identifier: Apache-2.0
#pragma once

// Only for processors with AVX2: see xxh3.hpp for functions that look first.

#include <cstddef>
#include <cstdint>

#include "base/internal/xxh3.hpp"

namespace cairn {

[[nodiscard]] std::uint64_t xxh3_64_avx2(const void* data, std::size_t bytes) noexcept;
[[nodiscard]] Xxh3Pair xxh3_128_avx2(const void* data, std::size_t bytes) noexcept;

}  // namespace cairn
