// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/contract/save_context.hpp"
#include "cairn/sharding/policy.hpp"

namespace cairn {

class Tree;

/// How ranks save arrays of which each holds parts.
struct RankArrayOptions {
  RankArrayOptions() = default;

  /// What the save's ShardingOptions say.
  explicit RankArrayOptions(const SaveContext& context);

  /// Says whether all ranks bring the same.
  RankPaths paths = RankPaths::same;
  /// Which of the ranks that hold a box writes it; that of rank 0 counts.
  ReplicaChoice replicas = ReplicaChoice::balanced_and_split;
  /// See PlanOptions::is_covered_by_main; that of rank 0 counts.
  bool is_covered_by_main = false;
  /// The ranks of this one's group, itself included; empty: all ranks. A box is written by a rank of the group that has
  /// its main replica. All members name the same ranks.
  std::vector<std::uint32_t> group;
  /// Up to so many boxes of an array that this rank writes, and no policy divides, lie in files of their own, which
  /// torch reads. Where there are more, all lie in one, which is marked (docs/sharding.md). 1: marked files are meant,
  /// and no problem of the save.
  std::size_t most_files = 16;
};

/// Saves the arrays of one checkpointable of which ranks hold parts: for handlers that save on all ranks
/// (Participation::all). Trees are saved so.
///
/// Each rank adds what it has, and all call `write`. They agree on who writes which part of which array, and write
/// files and an index that trees and read_arrays read. What they have agreed on is kept in the context, and
/// nothing of it is said again as long as all hold the same. In a job of one rank that writes all. The options of a
/// save that are about arrays hold: ArrayOptions, ArrayRules, ShardingOptions::policy.
///
/// Paths are keys joined by '/', see formats::append_key. A checkpointable is saved by one of these; it uses the
/// channels "leaves", "values" and "copies" of its context.
/// Threads: not safe.
/// Example: RankArrays arrays(context, options);  arrays.add("w", rows_of_this_rank);
///          co_return co_await std::move(arrays).write();
class RankArrays {
 public:
  RankArrays(SaveContext context, RankArrayOptions options);
  ~RankArrays();
  RankArrays(RankArrays&&) noexcept;
  RankArrays& operator=(RankArrays&&) noexcept;

  /// Adds what this rank holds of an array.
  ///
  /// Ownership: as SaveContext::snapshot says of the elements.
  /// Errors:    those of write_arrays about an array; of rules.
  void add(std::string path, ShardedArray array);
  /// Adds an array of which this rank has all, and so have others that add the path: the lowest of them writes it.
  void add(std::string path, Array array);
  /// Adds all leaves of a tree: arrays as above, and values that are not arrays, which the lowest rank writes that has
  /// them. Arrays that are the same memory are written once, under several names. Called once.
  ///
  /// Ownership: the tree stays as it is until `write` has returned.
  void add_leaves(const Tree& tree);

  /// Agrees with the other ranks, and writes.
  ///
  /// Phase:  as SaveContext::write_pieces.
  /// Errors: on all ranks, naming path, boxes and ranks: Errc::invalid_argument, Errc::shape_mismatch,
  ///         Errc::dtype_mismatch and Errc::type_mismatch where what they bring does not fit; those of AssignmentPlan.
  ///         Those of write_arrays, and of sharding policies.
  [[nodiscard]] Awaitable<Background<>> write() &&;

 private:
  struct State;

  static Awaitable<Background<>> write_all(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace cairn
