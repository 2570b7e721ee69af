// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "cairn/async/awaitable.hpp"
#include "cairn/coord/reduce_changes.hpp"
#include "cairn/coord/session.hpp"
#include "cairn/sharding/assignment_plan.hpp"

#include "same_values.hpp"
#include "sharding/internal/rank_leaves.hpp"

namespace cairn::detail {

// The ranks of a job tell each other about leaves that they save together. Of sharded arrays each holds boxes; all
// other leaves are written by one rank.

/// The leaves that this rank brings.
struct LeavesOfRank {
  std::string name;  ///< Of the checkpointable, for messages.
  std::uint32_t ranks = 1;
  sharding::RankLeaves said;
  SameValues values;              ///< Of all leaves. Compared on the way, if they have been computed.
  sharding::PlanOptions options;  ///< Those of rank 0 count.
};

/// Holds what a rank writes, as all have agreed in an earlier save: it stands while every rank holds what it
/// held then.
struct KeptAssignments {
  coord::SaidBefore said;
  ReplicaChoice replicas = ReplicaChoice::balanced_and_split;
  bool is_covered_by_main = false;
  sharding::RankAssignments assignments;
};

/// The result of the agreement.
struct AgreedLeaves {
  std::shared_ptr<const KeptAssignments> assignments;
  bool has_same_values = true;
  LeavesOfRank mine;  ///< What this rank brought.
};

/// Rank 0 hears what each rank holds, and tells each what it writes; or that it writes what it wrote `before` (or
/// null), when nobody holds anything else.
///
/// Errors: on all ranks, naming leaf, boxes and ranks: those of sharding::plan_answers.
[[nodiscard]] Awaitable<AgreedLeaves> agree_on_assignments(coord::Channel& ranks, LeavesOfRank mine,
                                                           std::shared_ptr<const KeptAssignments> before);

}  // namespace cairn::detail
