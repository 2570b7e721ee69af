// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/contract/value_traits.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn {

/// Saves one sharded array, in the files of a tree whose root it is.
///
/// A load without a wish brings the boxes in which it is stored, all of them; metadata tells which they are.
/// Options: ArrayOptions, ShardingOptions, TreeLoadOptions.
class ShardedArrayHandler final : public CheckpointableHandler<ShardedArray, AbstractShardedArray> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.sharded_array/1"; }
  [[nodiscard]] Participation participation() const noexcept override { return Participation::all; }

  /// Errors: as TreeHandler.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const ShardedArray& value) const override;

  /// Errors: as TreeHandler.
  [[nodiscard]] Awaitable<Background<ShardedArray>> load(
      LoadContext context, std::optional<AbstractShardedArray> wanted) const override;

  /// With the layout that it was saved with.
  [[nodiscard]] Awaitable<AbstractShardedArray> metadata(LoadContext context) const override;

  [[nodiscard]] Description describe(const AbstractShardedArray& stored) const override;
};

template <>
struct OwnsItsMemory<ShardedArray> {
  static constexpr bool kIsShared = true;

  static bool check(const ShardedArray& array) { return OwnsItsMemory<Tree>::check(Tree(array)); }
};

/// The elements are copied, too, but for those on devices.
template <>
struct WatchedCopy<ShardedArray> {
  static const ShardedArray* make(const ShardedArray& value, const std::shared_ptr<WatchedMemory>& memory) {
    const Tree tree(value);
    return WatchedCopy<Tree>::make(tree, memory)->sharded_array_if();
  }
};

}  // namespace cairn
