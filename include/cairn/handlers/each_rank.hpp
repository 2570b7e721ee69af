// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cairn/array/layout.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn {

/// Leaves that are each rank's own: random state, or the position in its data. What is not sharded is saved as rank 0
/// has it; of such a leaf every rank saves its value, under one name.
///
/// It is a sharded array [ranks, …], of which each rank holds the row with its number. So it is loaded as any array
/// in boxes is: by the rank itself, of another number of ranks by index, or as all values. What is not an array is a
/// row of bytes with its length. Example:
///   state["random"] = of_each_rank(engine_state, {rank, ranks});   // std::uint32_t[624], on every rank.
///   load_into("run/7", state);                                     // By as many ranks: each gets its own.
///   AbstractTree wanted = metadata("run/7");
///   wanted["random"] = of_rank(wanted["random"], 2);               // By others: that of rank 2,
///   values_of_ranks(load("run/7").at("random"));                   // or those of all.

/// The place of a rank among the ranks of its job.
struct RankOfJob {
  RankOfJob() = default;
  RankOfJob(std::uint32_t rank_value, std::uint32_t ranks_value) : rank(rank_value), ranks(ranks_value) {}
  explicit RankOfJob(const coord::Coordinator& job)
      : RankOfJob(static_cast<std::uint32_t>(job.rank()), static_cast<std::uint32_t>(job.size())) {}

  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
};

/// Bytes of a row for a value that is not an array, unless told otherwise.
inline constexpr std::uint64_t kRoomOfRank = 16 << 10;

/// A leaf that is each rank's own. An array shares the memory of `value`, and has one shape and dtype on all ranks.
/// Anything else, also a tree, may be another thing on each rank; it is copied, and so must be made anew for each
/// save.
///
/// `room` is how many bytes it may take, the same on all ranks: then the index stays as it is while values change.
/// Errors: Errc::invalid_argument when the value takes more, when it has arrays on devices or in shards, when an
///         array is not contiguous, or where the job has no such rank.
[[nodiscard]] ShardedArray of_each_rank(const Tree& value, RankOfJob place, std::uint64_t room = kRoomOfRank);

/// Asks for the value of one rank, of a leaf as metadata describes it.
///
/// Errors: Errc::invalid_argument, naming how many ranks have saved it; Errc::type_mismatch when it is no array.
[[nodiscard]] AbstractTree of_rank(const AbstractTree& stored, std::uint32_t rank);

namespace detail {

/// How the values of as many ranks are divided among them.
[[nodiscard]] std::shared_ptr<const Layout> layout_of_each_rank(std::uint32_t ranks);

}  // namespace detail

/// The values that a leaf has which was loaded: of all ranks in their order, of one, or of this one. Arrays share its
/// memory.
///
/// Errors: Errc::type_mismatch and Errc::shape_mismatch when it is no such leaf; Errc::malformed_metadata when a
///         value is damaged.
[[nodiscard]] std::vector<Tree> values_of_ranks(const Tree& leaf);

}  // namespace cairn
