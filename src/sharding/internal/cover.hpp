// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "cairn/array/shape.hpp"
#include "cairn/base/some_ranks.hpp"

namespace cairn {

/// Tells which ranks hold a box, by its number.
using HoldersOfBox = std::function<SomeRanks(std::size_t number)>;

/// Checks that `boxes`, as far as they meet `region`, tile it: every element of the region lies in exactly one of
/// them. Where the region is all of an array, that the array is whole; where it is a part that somebody wants, that
/// the part is.
///
/// `array` and, when given, the ranks that hold each box are named in errors.
/// Shape:  the region and the boxes have the same rank; boxes of no elements do not count.
/// Time:   n log n for boxes in a grid, whatever its lines and the order; n^2 in the worst case.
/// Errors: Errc::overlapping_shards, naming two boxes, and in which they overlap; Errc::incomplete_shards, naming a
///         box that is missing, as large as it can be, and those next to it; Errc::invalid_argument when boxes differ
///         in rank, or the region has more than 2^63 - 1 elements.
void check_cover(std::string_view array, const Box& region, std::span<const Box> boxes,
                 const HoldersOfBox& holders = {});

}  // namespace cairn
