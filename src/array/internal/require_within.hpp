// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "cairn/array/shape.hpp"

namespace cairn {

/// Requires that a box lies within an array of `shape`; `what` is what it is called: "box", "part".
///
/// Errors: Errc::invalid_argument, naming the first axis that ends too early, or both ranks.
void require_within(std::string_view what, const Box& box, const Shape& shape);

}  // namespace cairn
