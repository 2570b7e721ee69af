// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/array/array_view.hpp"

namespace cairn::cli {

/// In what two arrays of one dtype and shape differ.
struct ArrayDifference {
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  double largest = 0;    ///< Of the distances between elements that differ, as far as they are numbers.
  bool has_nan = false;  ///< Some element is NaN on one side only.
};

/// Counts the elements that differ: in any bit or, with a tolerance, by more than it. Two NaNs are then
/// equal.
///
/// Both are contiguous, in the host's memory, and of the same dtype and shape.
[[nodiscard]] ArrayDifference compare(const ArrayView& a, const ArrayView& b,
                                      std::optional<double> tolerance);

/// The distance of two numbers: 0 for equal ones and two NaNs, NaN when one is NaN.
[[nodiscard]] double distance(double a, double b) noexcept;

}  // namespace cairn::cli
