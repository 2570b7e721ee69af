// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/coord/reduce_changes.hpp"
#include "cairn/coord/session.hpp"
#include "cairn/sharding/assignment_plan.hpp"
#include "cairn/sharding/rank_boxes.hpp"

#include "divide.hpp"
#include "same_values.hpp"

namespace cairn::detail {

// The ranks of a job tell each other about a tree that they save together. All have the same leaves; of sharded arrays
// each holds boxes, all others are written by rank 0.

/// One line of what all ranks must have alike.
[[nodiscard]] std::string line_of_leaf(std::string_view path, std::string_view kind);
[[nodiscard]] std::string line_of_array(std::string_view path, std::string_view kind, DType dtype,
                                        const Shape& shape);

/// The leaves that this rank brings.
struct RankLeaves {
  std::string name;  ///< Of the checkpointable, for messages.
  std::size_t rank = 0;
  std::size_t ranks = 1;
  std::string lines;  ///< Of all leaves.
  SameValues values;  ///< Of all leaves; rank 0's count. Compared on the way, if they have been computed.
  std::vector<sharding::RankBoxes> rank_boxes;
  std::uint64_t alone_bytes = 0;  ///< In memory, of the arrays that rank 0 writes alone; its own count.
  ReplicaChoice replicas = ReplicaChoice::balanced_and_split;  ///< That of rank 0 counts.
};

/// Holds what a rank writes, as all have agreed in an earlier save: it stands while every rank holds what it
/// held then.
struct KeptAssignments {
  coord::SaidBefore said;
  ReplicaChoice replicas = ReplicaChoice::balanced_and_split;
  RankAssignments assignments;
};

/// The result of the agreement.
struct AgreedLeaves {
  std::shared_ptr<const KeptAssignments> assignments;
  bool has_same_values = true;
  RankLeaves mine;  ///< What this rank brought.
};

/// Rank 0 hears what each rank holds, and tells each what it writes; or that it writes what it wrote `before` (or
/// null), when nobody holds anything else.
///
/// Errors: on all ranks, naming array, boxes and ranks. Errc::invalid_argument when ranks have not the same leaves;
///         those of AssignmentPlan.
[[nodiscard]] Awaitable<AgreedLeaves> agree_on_assignments(coord::Channel& ranks, RankLeaves mine,
                                                           std::shared_ptr<const KeptAssignments> before);

}  // namespace cairn::detail
