// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cairn/array/shape.hpp"

namespace cairn {

/// Checks that `boxes`, as far as they meet `region`, tile it: every element of the region lies in exactly one of them.
/// Where the region is all of an array, that the array is whole; where it is a part that somebody wants, that the part is.
///
/// `array` and, when given, the rank that holds each box are named in errors.
/// Shape:  the region and the boxes have the same rank; boxes of no elements do not count.
/// Time:   n log n for boxes in a grid, whatever its lines and the order; n^2 in the worst case.
/// Errors: Errc::overlapping_shards, naming two boxes; Errc::incomplete_shards, naming a box that is missing;
///         Errc::invalid_argument when ranks differ (of arrays, or the number of those that hold boxes), or the region has
///         more than 2^63 - 1 elements.
void check_cover(std::string_view array, const Box& region, std::span<const Box> boxes,
                 std::span<const std::uint32_t> holders = {});

}  // namespace cairn
