// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cairn/array/shape.hpp"

namespace cairn::sharding {

/// A box of a table that a wanted box meets, and what they share.
struct BoxOverlap {
  std::size_t number = 0;  ///< The number of the box in the table.
  Box shared;
};

/// Finds which of many boxes meet another one, without looking at all.
///
/// A tree of bounding boxes over the boxes in the order of their offsets: building it takes linear time where they
/// come in that order (stored slices do), else n log n; a search takes time for what it finds and for the nodes on
/// the way.
/// Threads: does not change; may be searched from any thread.
class BoxTable {
 public:
  /// Ownership: keeps no reference to `boxes`.
  /// Errors:    Errc::invalid_argument when the boxes differ in rank.
  explicit BoxTable(std::span<const Box> boxes);

  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }

  /// All boxes that share elements with `wanted`, in the order of their offsets.
  ///
  /// Errors: Errc::invalid_argument when `wanted` has another rank than the boxes.
  [[nodiscard]] std::vector<BoxOverlap> overlaps(const Box& wanted) const;

 private:
  struct Level {
    std::vector<std::uint64_t> begins;  // For each node, dimension by dimension.
    std::vector<std::uint64_t> ends;
  };

  void add_level();
  [[nodiscard]] bool meets(const Level& level, std::size_t node, const Box& wanted) const noexcept;

  std::size_t rank_ = 0;
  std::vector<std::size_t> order_;  // Numbers of the boxes, in the order of level 0.
  std::vector<Level> levels_;       // The boxes; their bounds, kFan at a time; the bounds of those…
};

}  // namespace cairn::sharding
