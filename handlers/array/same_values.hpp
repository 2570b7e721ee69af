// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
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
/// Compared are leaves in memory of the host. Those of up to 64 KiB (a std::mt19937 has 2,496 bytes) are compared
/// whole, the smallest first, until they have 16 MiB together; of all others 64 places of 64 bytes, spread over the
/// leaf: more would cost each rank a pass over memory that only rank 0 has to read.
class SameValues {
 public:
  /// Adds a leaf. All ranks add the same leaves, in the same order, or choose such. `must_be_same`: several ranks write
  /// of it, so what is stored is nobody's value where it differs.
  void add(const Tree& leaf, bool must_be_same = false);
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

  /// Returns whether the leaf of a hash must be the same.
  [[nodiscard]] bool must_be_same(std::size_t hash) const { return must_be_same_.contains(leaf_of(hash)); }

  /// How many leaves are on devices.
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
  std::set<std::size_t> must_be_same_;     // By the numbers that they were added with.
};

/// Where ranks have other values than rank 0.
struct NamedDifferences {
  std::string words;  ///< Names the first few leaves and ranks; empty when nothing differs that both compare.
  bool is_mixed = false;  ///< Several ranks write of one of them.
};

/// Finds out which leaves differ from those of rank 0, and on which ranks: for when the hashes of all values do. All
/// ranks call it, and get the same answer; `leaves` are all that were added.
[[nodiscard]] Awaitable<NamedDifferences> name_differences(coord::Channel& ranks, SameValues mine,
                                                           sharding::LeafList leaves);

}  // namespace cairn::detail
