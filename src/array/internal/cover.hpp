// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/array/shape.hpp"

namespace cairn {

/// Says where a box comes from, by its number, for messages: " of rank 3", " in 'a.safetensors'".
using BoxOrigin = std::function<std::string(std::size_t number)>;

/// Checks that `boxes`, as far as they meet `region`, tile it: every element of the region lies in exactly one of
/// them. Where the region is all of an array, that the array is whole; where it is a part that somebody wants, that
/// the part is.
///
/// `array` and, when given, the origins of the boxes are named in errors.
/// Shape:  the region and the boxes have the same rank; boxes of no elements do not count.
/// Time:   n log n for boxes in a grid, whatever its lines and the order; n^2 in the worst case.
/// Errors: Errc::overlapping_shards, naming two boxes, and in which they overlap; Errc::incomplete_shards, naming a
///         box that is missing, as large as it can be, and those next to it; Errc::invalid_argument when boxes differ
///         in rank, or the region has more than 2^63 - 1 elements.
void check_cover(std::string_view array, const Box& region, std::span<const Box> boxes,
                 const BoxOrigin& origin = {});

}  // namespace cairn
