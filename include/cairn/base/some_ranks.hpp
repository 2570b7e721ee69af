// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

/// Ranks of many, of which a message names a few: the lowest four of those that were added, and how many there are.
struct SomeRanks {
  std::vector<std::uint32_t> lowest;  ///< In their order.
  std::uint64_t count = 0;

  void add(std::size_t rank);
  /// Adds the ranks of another message; none of them is here already.
  void add(const SomeRanks& others);
  /// Takes away a rank that is named. Returns whether it was.
  bool remove(std::size_t rank);
};

/// "rank 3", "ranks 1 and 3", "ranks 1, 2, 3, 4 and 17 more".
[[nodiscard]] std::string to_string(const SomeRanks& ranks);

}  // namespace cairn
