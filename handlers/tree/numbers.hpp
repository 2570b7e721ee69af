// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "cairn/array/dtype.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/handlers/tree_leaf.hpp"
#include "cairn/handlers/tree_values.hpp"

namespace cairn::detail {

/// Returns whether one can be asked for where the other is stored.
[[nodiscard]] constexpr bool are_numbers(TreeKind a, TreeKind b) noexcept {
  const auto is_number = [](TreeKind kind) {
    return kind == TreeKind::integer || kind == TreeKind::floating;
  };
  return is_number(a) && is_number(b);
}

/// An integer as a floating-point number, or the reverse, as signed_number, unsigned_number and floating_number say.
///
/// Errors: theirs. An integer above the range of the wanted kind does not exist: a float saturates at the ends of 64
///         bits.
[[nodiscard]] Tree cast_number(const Tree& stored, TreeKind wanted, std::string_view path,
                               Narrowing narrowing);

}  // namespace cairn::detail
