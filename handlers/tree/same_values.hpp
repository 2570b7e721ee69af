// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/hash.hpp"
#include "cairn/coord/conversation.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn::detail {

/// The values that a rank has of what is not sharded, as hashes: those of rank 0 are saved, and ranks that have others are named.
///
/// Compared are scalars, texts, bytes, and arrays of up to 1 KiB in memory of the host. What larger arrays hold is not looked
/// at: that would cost each rank a pass over memory that only rank 0 has to read.
class SameValues {
 public:
  /// Adds a leaf. All ranks add the same leaves, in the same order.
  void add(const Tree& leaf);

  /// Differs when that of a leaf does.
  [[nodiscard]] Hash128 hash() const noexcept;

  /// By leaf; 0: not compared, which is the same as anything.
  [[nodiscard]] const std::vector<std::uint64_t>& hashes() const noexcept { return hashes_; }

 private:
  std::vector<std::uint64_t> hashes_;
};

/// Finds out which leaves differ from those of rank 0, and on which ranks: for when the hashes of all values do. All ranks call
/// it; `lines` are those of all leaves, as `line_of_leaf` makes them. The answer, on all ranks, is a sentence that names the
/// first few leaves and ranks; empty when nothing differs that both ranks compare.
[[nodiscard]] Awaitable<std::string> name_differences(Subject& ranks, SameValues mine, std::string lines);

}  // namespace cairn::detail
