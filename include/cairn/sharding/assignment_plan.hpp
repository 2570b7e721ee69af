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
#include "cairn/sharding/sharding.hpp"

namespace cairn {

/// Which of the ranks that hold a box writes it.
enum class ReplicaChoice : std::uint8_t {
  /// The one whose replica is number 0: the caller's choice.
  main,
  /// The least loaded: boxes with the fewest holders first, of these the largest, of these by name; lowest rank on a
  /// tie.
  balanced,
  /// As balanced, but a copy that would leave one rank with more than its share fills up the least loaded of its
  /// holders, one after the other. Those end within 5 % of each other unless what cannot be cut (packed types,
  /// several boxes of one rank) makes them differ. There are about as many pieces as copies and holders together.
  balanced_and_split,
};

}  // namespace cairn

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
  /// Arrays of no elements have no assignments. Rank 0 writes `alone_bytes` besides, which count as its load.
  ///
  /// Time:   linear in arrays times parts of their layouts, and n log n in boxes that several ranks hold.
  /// Errors: all name the array, and boxes and ranks where there are any. Errc::overlapping_shards for boxes that
  ///         overlap but are not equal, or that one rank holds twice as one replica; Errc::incomplete_shards for
  ///         elements that nobody holds, or where ReplicaChoice::main finds no main replica; Errc::invalid_argument
  ///         for a sharding that does not fit the shape or has more ranks than the job, a replica number given twice,
  ///         an array that has no number of bytes, two arrays of one name, and a job of no ranks or of more than
  ///         kMaxRanks.
  AssignmentPlan(std::vector<PlannedArray> arrays, std::uint32_t ranks,
                 ReplicaChoice choice = ReplicaChoice::balanced_and_split, std::uint64_t alone_bytes = 0);
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

  /// Returns whether nobody holds what another holds, too: then each rank writes all that it holds.
  [[nodiscard]] bool has_no_copies() const noexcept;

  /// How many bytes each rank writes, those of rank 0 alone included.
  [[nodiscard]] std::span<const std::uint64_t> bytes_by_rank() const noexcept;

 private:
  class Planner;
  struct Plan;

  std::unique_ptr<const Plan> plan_;
};

}  // namespace cairn::sharding
