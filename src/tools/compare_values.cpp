// SPDX-License-Identifier: Apache-2.0
#include "tools/compare_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "tools/internal/array_difference.hpp"

namespace cairn::tools {
namespace {

/// How far two values lie apart, if they are numbers of one kind: of integers exact, though neither need fit in a
/// double.
std::optional<double> apart(const DescribedValue& a, const DescribedValue& b) {
  const auto* x = std::get_if<double>(&a.value);
  const auto* y = std::get_if<double>(&b.value);
  if (x != nullptr && y != nullptr) {
    return distance(*x, *y);
  }
  // Below zero counts as the two's complement: the difference of the larger and the smaller is right all the same.
  const auto bits = [](const DescribedValue& value) -> std::optional<std::uint64_t> {
    if (const auto* number = std::get_if<std::int64_t>(&value.value)) {
      return static_cast<std::uint64_t>(*number);
    }
    const auto* large = std::get_if<std::uint64_t>(&value.value);
    return large != nullptr ? std::optional(*large) : std::nullopt;
  };
  const auto is_negative = [](const DescribedValue& value) {
    const auto* number = std::get_if<std::int64_t>(&value.value);
    return number != nullptr && *number < 0;
  };
  const auto left = bits(a);
  const auto right = bits(b);
  if (!left || !right) {
    return std::nullopt;
  }
  const bool is_left_larger = is_negative(a) == is_negative(b) ? *left > *right : is_negative(b);
  return static_cast<double>(is_left_larger ? *left - *right : *right - *left);
}

double magnitude(const DescribedValue& value) {
  return std::visit(
      []([[maybe_unused]] const auto& number) {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(number)>>) {
          return std::abs(static_cast<double>(number));
        }
        return 0.0;
      },
      value.value);
}

/// Returns whether two values are the same, bit by bit.
bool is_same_value(const DescribedValue& a, const DescribedValue& b) {
  const auto* x = std::get_if<double>(&a.value);
  const auto* y = std::get_if<double>(&b.value);
  return x != nullptr && y != nullptr ? std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y)
                                      : a.value == b.value;
}

}  // namespace

bool are_equal(const DescribedValue& a, const DescribedValue& b, const DiffOptions& options) {
  if (is_same_value(a, b)) {
    return true;
  }
  const std::optional<double> gap = apart(a, b);
  return gap &&
         is_close(*gap, std::max(magnitude(a), magnitude(b)), options.tolerance, options.relative_tolerance);
}

}  // namespace cairn::tools
