// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "cairn/array/dtype.hpp"
#include "cairn/tools/diff.hpp"

namespace cairn::tools {

/// Adds to `difference` the elements that differ: in any bit or, with a tolerance, by more than it allows. Two NaNs are
/// then equal.
///
/// Both are whole elements of that dtype, and as many.
void add_difference(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype,
                    std::optional<double> tolerance, ArrayDifference& difference,
                    double relative_tolerance = 0);

/// Returns whether numbers whose distance is `gap` count as equal; `larger` is the larger of their magnitudes.
[[nodiscard]] bool is_close(double gap, double larger, std::optional<double> tolerance,
                            double relative_tolerance) noexcept;

/// Returns the distance of two numbers: 0 for equal ones and two NaNs, NaN when one is NaN.
[[nodiscard]] double distance(double a, double b) noexcept;

}  // namespace cairn::tools
