// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/sharding.hpp"

namespace cairn::sharding {

/// An array of a job, and how it is divided among the ranks.
struct PlannedArray {
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
  Sharding sharding = Sharding::replicated(1);
  /// Arrays of a lower turn are given to ranks first, whatever their size.
  std::uint32_t turn = 0;
  /// The number of an array before it of which this is another name: nobody writes it again, and its sharding is not
  /// looked at.
  std::optional<std::uint32_t> same_as = std::nullopt;
};

/// How a plan chooses.
struct PlanOptions {
  PlanOptions() = default;
  PlanOptions(ReplicaChoice choice)
      : replicas(choice) {}  // NOLINT(google-explicit-constructor): of most plans all.

  ReplicaChoice replicas = ReplicaChoice::balanced_and_split;
  /// The main replicas (number 0) alone must have every element once. Other replicas count only where their box is
  /// that of a main one, and are left out elsewhere, whatever their numbers. So copies may be cut in another way.
  bool is_covered_by_main = false;
  /// The number of the group of each rank; empty: all are one group. Only ranks of the group of a box's main replica
  /// (else its lowest) write it.
  std::vector<std::uint32_t> group_of_rank;
  /// How many bytes each rank writes besides, which count as its load; ranks behind the last one write none.
  std::vector<std::uint64_t> alone_bytes;
};

/// A box that one rank writes.
struct WriteAssignment {
  std::uint32_t array = 0;  ///< Its number in the plan.
  Box box;

  bool operator==(const WriteAssignment&) const = default;
};

/// Plans which rank writes what: every element of every array is in exactly one assignment of a rank that
/// holds it.
///
/// The same on every rank that makes it from the same arrays. What rules say about sharding is not kept by rank: the
/// assignments of a rank are worked out when they are asked for.
/// Threads: does not change.
/// Example: AssignmentPlan plan({{"w", DType::float32, {8, 4}, Sharding::replicated(2)}}, 2);
///          plan.assignments(1);  // Half of w.
class AssignmentPlan {
 public:
  /// Arrays of no elements have no assignments.
  ///
  /// Time:   linear in arrays times parts of their layouts, and n log n in boxes that several ranks hold.
  /// Errors: all name the array, and boxes and ranks where there are any. Errc::overlapping_shards for boxes that
  ///         overlap but are not equal, or that one rank holds twice as one replica; Errc::incomplete_shards for
  ///         elements that nobody holds, or no rank as main replica where the options want one;
  ///         Errc::invalid_argument for a sharding that does not fit the shape or has more ranks than the job, a
  ///         replica number given twice, an array that has no number of bytes, two arrays of one name, options for
  ///         another number of ranks, and a job of no ranks or of more than kMaxRanks.
  AssignmentPlan(std::vector<PlannedArray> arrays, std::uint32_t ranks,
                 const PlanOptions& options = PlanOptions());
  ~AssignmentPlan();
  AssignmentPlan(AssignmentPlan&&) noexcept;
  AssignmentPlan& operator=(AssignmentPlan&&) noexcept;

  [[nodiscard]] std::span<const PlannedArray> arrays() const noexcept;
  [[nodiscard]] std::uint32_t ranks() const noexcept;

  /// Returns what `rank` writes, array by array; each box has elements.
  ///
  /// Time:   linear in arrays and in what it returns.
  /// Errors: Errc::invalid_argument when the job has no such rank.
  [[nodiscard]] std::vector<WriteAssignment> assignments(std::uint32_t rank) const;

  /// Returns whether nobody holds what another holds, too, and nothing is left out: then each rank writes all that it
  /// holds.
  [[nodiscard]] bool has_no_copies() const noexcept;

  /// How many bytes each rank writes, PlanOptions::alone_bytes included.
  [[nodiscard]] std::span<const std::uint64_t> bytes_by_rank() const noexcept;

 private:
  class Planner;
  struct Plan;

  std::unique_ptr<const Plan> plan_;
};

}  // namespace cairn::sharding
