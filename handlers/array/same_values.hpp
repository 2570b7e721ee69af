// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/hash.hpp"
#include "cairn/coord/session.hpp"
#include "cairn/handlers/tree.hpp"

#include "sharding/internal/rank_leaves.hpp"

namespace cairn::detail {

/// The values that a rank has of what is not sharded, as hashes: those of rank 0 are saved, and ranks that have
/// others are named.
///
/// Compared are leaves of up to 64 KiB in memory of the host (a std::mt19937 has 2,496 bytes), the smallest first,
/// until they have 16 MiB together: more would cost each rank a pass over memory that only rank 0 has to read.
class SameValues {
 public:
  /// Adds a leaf. All ranks add the same leaves, in the same order, or choose such.
  void add(const Tree& leaf);
  /// Adds a leaf that is not compared with any other.
  void add_none() { hashes_.push_back(0); }

  /// Leaves those with these numbers only, in this order: before they are hashed.
  void choose(std::span<const std::uint32_t> numbers);

  /// Hashes what was added, which must be valid and unchanged. Until then all leaves are the same as anything.
  ///
  /// Threads: any; concurrently with readers of the leaves.
  void compute();

  /// Differs when that of a leaf does.
  [[nodiscard]] Hash128 hash() const noexcept;

  /// By leaf; 0: not compared, which is the same as anything.
  [[nodiscard]] const std::vector<std::uint64_t>& hashes() const noexcept { return hashes_; }
  /// The number that the leaf of a hash was added with.
  [[nodiscard]] std::size_t leaf_of(std::size_t hash) const {
    return chosen_.empty() ? hash : chosen_.at(hash);
  }

  /// How many leaves were too large to be compared, or are on devices.
  [[nodiscard]] std::size_t not_compared() const noexcept { return not_compared_.size(); }

 private:
  /// A leaf that has a size.
  struct Sized {
    std::uint64_t bytes = 0;
    std::size_t number = 0;
    const Tree* leaf = nullptr;
  };

  std::vector<std::uint64_t> hashes_;
  std::vector<Sized> sized_;               // That compute() hashes.
  std::vector<std::size_t> not_compared_;  // Their numbers.
  std::vector<std::uint32_t> chosen_;      // Of the leaves; none: all.
};

/// Finds out which leaves differ from those of rank 0, and on which ranks: for when the hashes of all values do. All
/// ranks call it; `leaves` are all that were added. The answer, on all ranks, is a sentence that names the first few
/// leaves and ranks; empty when nothing differs that both ranks compare.
[[nodiscard]] Awaitable<std::string> name_differences(coord::Channel& ranks, SameValues mine,
                                                      sharding::LeafList leaves);

}  // namespace cairn::detail
