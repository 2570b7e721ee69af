// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cairn/cairn.hpp"

namespace cairn::stress {

/// The large array of a state, and its shape.
inline constexpr const char* kLargeArray = "arrays/2";
[[nodiscard]] Shape large_shape();

/// What the save of that number saves: a tree that shows whether all of it is of one save.
[[nodiscard]] Tree make_state(std::uint64_t number);
/// Whose save a tree is.
/// Errors: Error when it is not whole.
[[nodiscard]] std::uint64_t number_in(const Tree& state);

}  // namespace cairn::stress
