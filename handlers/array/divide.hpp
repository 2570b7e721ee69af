// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/contract/save_context.hpp"
#include "cairn/sharding/assignment_plan.hpp"
#include "cairn/sharding/policy.hpp"

#include "array_store/internal/writer.hpp"
#include "sharding/internal/rank_leaves.hpp"

namespace cairn::detail {

// How arrays become parts of files: what is held becomes a plan of who writes what, that becomes parts that this rank
// writes, those become files. The plan is all that ranks must agree on (ranks.hpp); nothing here talks to them or does
// I/O.

/// An array, as this rank has it: whole or sharded.
struct HeldArray {
  std::string path;
  const Array* whole = nullptr;  ///< One rank writes it.
  const ShardedArray* sharded = nullptr;
  const ShardingPolicy* policy =
      nullptr;  ///< Which divides it among files; null: none. Lives as long as the save.
  std::string
      same_as;  ///< The path of an array before it of which this is another name; empty: it is its own.
  std::uint32_t leaf = 0;  ///< Its number among all leaves of the rank.
  bool is_mine = false;    ///< This rank writes it, if it is whole or has no elements.
};

/// Holds what a rank writes of an array.
struct WrittenPart {
  std::size_t array = 0;  ///< Its number among those that are held.
  Box box;
  Array values;  ///< Of the extents of the box.
};

/// The shards that have elements, in the order of their boxes and replicas.
[[nodiscard]] std::vector<const Shard*> sorted_shards(const ShardedArray& array);

/// Returns what `rank` of `ranks` holds of the sharded ones among the arrays: boxes in order, with all
/// replicas of each.
///
/// Errors: Errc::invalid_argument, naming path and box, when a box is held twice as the same replica.
[[nodiscard]] std::vector<sharding::RankBoxes> rank_boxes_of(std::span<const HeldArray> arrays,
                                                             std::uint32_t rank, std::uint32_t ranks);

/// Returns what this rank writes where there is no other.
///
/// Errors: Errc::incomplete_shards and Errc::overlapping_shards, naming path and boxes, when shards do not tile their
///         array.
[[nodiscard]] sharding::RankAssignments assignments_alone(std::span<const HeldArray> arrays,
                                                          const sharding::PlanOptions& options);

/// Returns what this rank writes, in the order of the arrays: its assignments of the sharded ones, and of all others
/// those that are its.
///
/// Shape: assignments number the sharded arrays in their order, and are sorted by that.
[[nodiscard]] std::vector<WrittenPart> parts_of(std::span<const HeldArray> arrays,
                                                std::span<const sharding::WriteAssignment> assignments);

/// Gives a writer what this rank writes, in the files of the policies of the arrays: each is asked once; and the
/// further names of that. Up to `most_files` boxes of an array that no policy divides are in files of their own.
///
/// Errors: those of the policy and of its result, with its description before them; those of Writer::add.
void add_divided(array_store::Writer& writer, std::span<const HeldArray> arrays,
                 const sharding::RankAssignments& assignments, std::size_t most_files,
                 const SaveContext& context);

}  // namespace cairn::detail
