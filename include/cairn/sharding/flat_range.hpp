// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cairn/array/shape.hpp"

namespace cairn {

/// A box whose elements follow each other, without gaps, in a range of a flattened array.
struct FlatPiece {
  Box box;
  std::uint64_t first = 0;  ///< Where in the range its elements begin.
};

/// The boxes that elements [begin, end) of `box` make up, counted row-major in the box: for optimizers that flatten
/// what they cut. At most 2 * N - 1 for N dimensions, in the order of the range; none for an empty range.
///
/// Shape:  the results have the coordinates of the array that `box` is a part of.
/// Errors: Errc::invalid_argument when the range is not within the box.
[[nodiscard]] std::vector<FlatPiece> boxes_of_flat_range(const Box& box, std::uint64_t begin,
                                                         std::uint64_t end);

}  // namespace cairn
