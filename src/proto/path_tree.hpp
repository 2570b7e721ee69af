// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "proto/tags.hpp"

namespace cairn::proto {

/// Paths that share where they begin alike: each is the one above it and a tag. So they take memory in proportion to
/// the tree that they come from, however long they are.
///
/// Invariant: equal paths have one place; a place comes behind those above it.
class PathTree {
 public:
  using Place = std::uint32_t;
  static constexpr Place kRoot = 0;

  PathTree() : nodes_(1) {}
  PathTree(const PathTree&) = delete;  // Nodes refer to keys of their own map.
  PathTree& operator=(const PathTree&) = delete;
  PathTree(PathTree&&) noexcept = default;
  PathTree& operator=(PathTree&&) noexcept = default;
  ~PathTree() = default;

  /// Returns the place to which `tag` leads from another one.
  Place step(Place from, Tag tag);

  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
  /// The place above one that is not the root, and the tag that leads from there.
  [[nodiscard]] Place above(Place place) const { return nodes_[place].step->from; }
  [[nodiscard]] const Tag& tag(Place place) const { return nodes_[place].step->tag; }
  /// How many tags lead to a place.
  [[nodiscard]] std::size_t depth(Place place) const { return nodes_[place].depth; }
  /// How many messages lie in each other on the way there.
  [[nodiscard]] int levels(Place place) const { return nodes_[place].levels; }

  /// The tags that lead to a place, from one at or above it.
  [[nodiscard]] Tags path(Place place, Place from = kRoot) const;

 private:
  struct Step {
    Place from = kRoot;
    Tag tag;

    friend auto operator<=>(const Step&, const Step&) = default;
  };
  struct Node {
    const Step* step = nullptr;  // A key of `found_`; null at the root.
    std::uint32_t depth = 0;
    std::int32_t levels = 0;
  };

  std::vector<Node> nodes_;
  std::map<Step, Place> found_;
};

}  // namespace cairn::proto
