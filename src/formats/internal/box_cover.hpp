// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/array/shape.hpp"

namespace cairn::formats {

/// Says where a box comes from, for messages: " in 'a.safetensors'".
using BoxOrigin = std::function<std::string(std::size_t number)>;

/// Checks that `boxes` tile an array of `shape`: every element lies in exactly one of them. `array` names the culprit,
/// `origin`, when given, the places of two boxes that overlap.
///
/// Time:   n log n for boxes in a grid, whatever the order; n^2 in the worst case.
/// Errors: Errc::overlapping_shards, naming both boxes; Errc::incomplete_shards; Errc::malformed_metadata when a box
///         reaches beyond the array or the array has more than 2^63 - 1 elements.
void check_cover(std::string_view array, const Shape& shape, std::span<const Box> boxes,
                 const BoxOrigin& origin = {});

}  // namespace cairn::formats
