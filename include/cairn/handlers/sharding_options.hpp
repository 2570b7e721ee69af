// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "cairn/contract/any_value.hpp"
#include "cairn/sharding/policy.hpp"

namespace cairn {

/// How the arrays of trees are divided among ranks and files, for saves:
/// `save_options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(500'000'000)))`.
struct ShardingOptions {
  ShardingOptions() = default;

  explicit ShardingOptions(std::shared_ptr<const ShardingPolicy> policy_value)
      : policy(std::move(policy_value)) {}

  /// Which file gets what; called once for each tree or array that is saved, while the caller waits. Null: all arrays
  /// go to as few files as the format allows, and further boxes of an array to further ones. ArrayRules say otherwise
  /// for some checkpointables and arrays.
  std::shared_ptr<const ShardingPolicy> policy;
  /// Which of the ranks that hold a box writes it.
  ReplicaChoice replicas = ReplicaChoice::balanced_and_split;
  /// Says whether all ranks bring the same leaves of a tree. Joined trees have what any rank brings, and values are
  /// compared where all ranks have them.
  RankPaths paths = RankPaths::same;

  /// See OptionSet; of the policy there is what it says of itself.
  [[nodiscard]] OptionWords same_on_all_ranks() const;
};

}  // namespace cairn
