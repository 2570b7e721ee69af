// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <optional>

namespace cairn {

/// `a + b`, or nothing when the sum does not fit.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) noexcept {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) {
    return std::nullopt;
  }
  return sum;
}

/// `a * b`, or nothing when the product does not fit.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_multiply(T a, T b) noexcept {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) {
    return std::nullopt;
  }
  return product;
}

/// The smallest multiple of `alignment` (a power of two) that is at least `value`.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up(T value, T alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace cairn
