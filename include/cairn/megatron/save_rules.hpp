// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cairn/contract/any_value.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/sharding/policy.hpp"

namespace cairn::megatron {

/// How a state dict is saved, never what: `save_options.handler_options.set(StateDictSaveRules())`.
struct StateDictSaveRules {
  StateDictSaveRules() = default;

  /// See OptionSet. The group, which differs between ranks, is compared by the handler.
  [[nodiscard]] OptionWords same_on_all_ranks() const;

  /// Ranks whose common state differs from rank 0's: an error instead of a problem of the result.
  bool requires_same_common = false;
  /// Returns what of the common state ranks are compared by: a copy without what may differ. Runs in the call that
  /// saves. Empty: all of it.
  std::function<Tree(const Tree& common)> before_comparison;
  /// Which of the ranks that hold a box writes it.
  ReplicaChoice replicas = ReplicaChoice::balanced_and_split;
  /// The ranks among which this one's copies are chosen, itself included; empty: all. A box is written by a rank of the
  /// group that has its main replica.
  std::vector<std::uint32_t> group;
  /// Each file has one box of a key, so that torch's reader takes them. There are as many more files as the key with
  /// the most boxes on a rank needs; SaveResult::files says how many in all. Off: boxes that do not touch share a file,
  /// which is marked, so that torch refuses it.
  bool for_torch = false;
};

}  // namespace cairn::megatron
