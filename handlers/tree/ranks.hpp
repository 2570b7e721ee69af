// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/coord/conversation.hpp"
#include "cairn/sharding/holdings.hpp"
#include "cairn/sharding/share_plan.hpp"

namespace cairn::detail {

// What the ranks of a job say to each other about a tree that they save together. All have the same leaves; of sharded arrays
// each holds boxes, of all others rank 0 is the one that writes them.

/// One line of what all ranks must have alike.
[[nodiscard]] std::string line_of_leaf(std::string_view path, std::string_view kind);
[[nodiscard]] std::string line_of_array(std::string_view path, std::string_view kind, DType dtype,
                                        const Shape& shape);

/// What this rank brings.
struct RankLeaves {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  std::string lines;  ///< Of all leaves.
  std::vector<Holding> holdings;
  ReplicaChoice replicas = ReplicaChoice::balanced_and_split;
};

/// Two steps: rank 0 hears what each rank holds, and tells each what it writes.
///
/// Errors: on all ranks, naming array, boxes and ranks. Errc::invalid_argument when ranks have not the same leaves; those of
///         SharePlan.
[[nodiscard]] Awaitable<std::vector<Share>> agree_on_shares(Subject& ranks, RankLeaves mine);

/// One step, where no rank has a sharded array: rank 0 hears that all have the same leaves.
///
/// Errors: Errc::invalid_argument.
[[nodiscard]] Awaitable<> agree_on_leaves(Subject& ranks, RankLeaves mine);

}  // namespace cairn::detail
