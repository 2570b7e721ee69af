// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "cairn/array/box.hpp"
#include "cairn/array/shape.hpp"

namespace cairn::formats {

/// Checks that `boxes` tile an array of `shape`: every element lies in exactly one of them. `array` names the culprit.
///
/// Time:   n log n for boxes in a grid, whatever the order; n^2 in the worst case.
/// Errors: Errc::overlapping_shards, naming both boxes; Errc::incomplete_shards; Errc::malformed_metadata when a box
///         reaches beyond the array or the array has more than 2^63 - 1 elements.
void check_cover(std::string_view array, const Shape& shape, std::span<const Box> boxes);

}  // namespace cairn::formats
