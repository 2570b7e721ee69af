// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/contract/save_context.hpp"
#include "cairn/sharding/assignment_plan.hpp"

#include "divide.hpp"

namespace cairn::detail {

/// Several ranks hold a box, and each writes a part of it: where their copies differ, what is stored is nobody's. So
/// the copies are compared, by hashes as SameValues makes them of one leaf.
///
/// 1. Each rank adds up, for each part of a box that it writes, the elements of the part times the hash of its copy of
///    the box; the rank with the first part takes away all elements of the box times its hash.
/// 2. The sum over all ranks, modulo 2^64, is 0 where all copies are alike, and else hardly ever: 8 bytes a rank.
/// 3. Where it is not, ranks say their hashes by box, and rank 0 names those that differ.
class SameCopies {
 public:
  /// Adds what this rank writes of boxes of which it does not write all.
  void add(std::span<const HeldArray> arrays, std::span<const sharding::WriteAssignment> assignments);

  /// Hashes the copies, which must be valid and unchanged. Those on devices are the same as anything.
  ///
  /// Threads: any; concurrently with readers of the copies.
  void compute();

  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }
  /// The boxes with their hashes, and this rank.
  [[nodiscard]] std::string encode(std::uint32_t rank) const;

 private:
  struct Copy {
    std::string name;          ///< "'w' [0:4]"
    std::uint64_t factor = 0;  ///< Modulo 2^64.
    Array elements;            ///< Of the whole box; nothing once it is hashed.
    std::uint64_t hash = 0;
  };

  std::vector<Copy> copies_;
  std::uint64_t sum_ = 0;
};

/// Refuses a save of which copies differ. All ranks call it.
///
/// Errors: Errc::ranks_differ on all ranks, naming arrays, boxes and ranks.
[[nodiscard]] Awaitable<> require_same_copies(SaveContext context, SameCopies mine);

}  // namespace cairn::detail
