// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "cairn/contract/value_traits.hpp"
#include "cairn/handlers/tree_chrono.hpp"
#include "cairn/handlers/tree_nested.hpp"
#include "cairn/handlers/tree_node.hpp"
#include "cairn/handlers/tree_values.hpp"

namespace cairn {

/// Calls `visitor` for every leaf, every empty map, and every list (before its elements), with its path.
///
/// Errors: Errc::invalid_argument when the tree is deeper than kMaxTreeDepth; what `visitor` throws.
void visit_leaves(const Tree& tree,
                  const std::function<void(std::string_view path, const Tree& leaf)>& visitor);

/// The elements of the arrays are copied, too, but for those on devices.
template <>
struct WatchedCopy<Tree> {
  static const Tree* make(const Tree& value, const std::shared_ptr<WatchedMemory>& memory);
};

/// A tree owns its memory when all of its arrays have owners.
template <>
struct OwnsItsMemory<Tree> {
  static constexpr bool kIsShared = true;

  static bool check(const Tree& tree);
};

}  // namespace cairn
