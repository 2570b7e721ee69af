// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/shape.hpp"

namespace cairn::cli {

/// Elements [begin, end) of one dimension.
struct SelectedRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_index = false;  ///< A single number chose it: the dimension is not shown.
};

/// A part of an array; one range for each dimension.
using Selection = std::vector<SelectedRange>;

/// Divides "w[0:5, :]" into the name and what stands between the brackets; the name alone when there are none.
[[nodiscard]] std::pair<std::string_view, std::optional<std::string_view>> split_subscript(
    std::string_view text);

/// Returns what "0:5, :" selects of an array, as numpy says it: indices and ranges, also open and negative
/// ones, and one "...". Dimensions that are not named are whole. Ranges are cut off at the ends of their
/// dimension, indices are not.
///
/// Errors: Errc::invalid_argument, which names the array and the culprit: no number or range, a step, an index
///         outside the array, more indices than dimensions.
[[nodiscard]] Selection parse_selection(std::string_view array, std::string_view subscript,
                                        const Shape& shape);

/// "[0:5, 3]".
[[nodiscard]] std::string to_string(const Selection& selection);

/// The extents of what is selected, without the dimensions that indices chose.
[[nodiscard]] Shape selected_shape(const Selection& selection);

}  // namespace cairn::cli
