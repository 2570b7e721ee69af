// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cairn::coord {

/// The tree along which ranks talk: rank 0 is the root, and each rank has up to `fan_out` children.
struct Tree {
  std::size_t size = 1;
  std::size_t fan_out = 16;

  [[nodiscard]] std::size_t parent(std::size_t rank) const noexcept { return (rank - 1) / fan_out; }

  [[nodiscard]] std::vector<std::size_t> children(std::size_t rank) const {
    std::vector<std::size_t> ranks;
    for (std::size_t i = 1; i <= fan_out && rank * fan_out + i < size; ++i) {
      ranks.push_back(rank * fan_out + i);
    }
    return ranks;
  }

  [[nodiscard]] std::vector<std::size_t> neighbours(std::size_t rank) const {
    std::vector<std::size_t> ranks = children(rank);
    if (rank != 0) {
      ranks.push_back(parent(rank));
    }
    return ranks;
  }

  /// Returns whether `above` is between `rank` and the root, or is it.
  [[nodiscard]] bool is_above(std::size_t above, std::size_t rank) const noexcept {
    while (rank > above) {
      rank = parent(rank);
      if (rank == above) {
        return true;
      }
    }
    return false;
  }

  /// The child of `above` whose subtree holds `rank`.
  [[nodiscard]] std::size_t child_towards(std::size_t above, std::size_t rank) const noexcept {
    while (parent(rank) != above) {
      rank = parent(rank);
    }
    return rank;
  }
};

}  // namespace cairn::coord
