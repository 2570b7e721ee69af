// SPDX-License-Identifier: Apache-2.0
#pragma once

// Obvious, slow ways to say what the module says quickly, and inputs for both.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/sharding/sharding.hpp"

#include "support/dice.hpp"

namespace cairn::testing {

/// An element of an array by its coordinates.
using Element = std::vector<std::uint64_t>;

inline std::vector<Element> elements_of(const Box& box) {
  std::vector<Element> elements;
  if (box.is_empty()) {
    return elements;
  }
  Element at(box.offsets().begin(), box.offsets().end());
  for (bool has_more = true; has_more;) {
    elements.push_back(at);
    has_more = false;
    for (std::size_t d = box.rank(); d-- > 0 && !has_more;) {
      has_more = ++at[d] < box.end(d);
      if (!has_more) {
        at[d] = box.begin(d);
      }
    }
  }
  return elements;
}

/// How often each element of an array lies in some of the boxes.
inline std::map<Element, int> count_elements(const std::vector<Box>& boxes) {
  std::map<Element, int> counts;
  for (const Box& box : boxes) {
    for (const Element& element : elements_of(box)) {
      ++counts[element];
    }
  }
  return counts;
}

/// Rank 0 to 5; ones, zeros and primes among the extents; at most `most` elements.
inline Shape random_shape(Dice& dice, std::uint64_t most = 600) {
  const std::array<std::uint64_t, 10> extents = {1, 1, 2, 2, 3, 4, 5, 7, 8, 13};
  Shape shape(dice.below(6), 1);
  std::uint64_t count = 1;
  for (std::uint64_t& extent : shape) {
    const std::uint64_t wanted = dice.pick(extents);
    extent = count * wanted <= most ? wanted : 1;
    count *= extent;
  }
  if (!shape.empty() && dice.one_in(12)) {
    shape[dice.below(shape.size())] = 0;
  }
  return shape;
}

/// One to three axes and at most 24 positions; every other mesh has its ranks shuffled.
inline Mesh random_mesh(Dice& dice) {
  const std::array<std::uint64_t, 6> extents = {1, 2, 2, 3, 4, 5};
  std::vector<std::uint64_t> chosen;
  std::vector<std::string> axes;
  std::uint64_t count = 1;
  for (std::size_t i = 0, axis_count = 1 + dice.below(3); i < axis_count; ++i) {
    const std::uint64_t wanted = dice.pick(extents);
    chosen.push_back(count * wanted <= 24 ? wanted : 1);
    count *= chosen.back();
    axes.push_back(std::string(1, static_cast<char>('a' + i)));
  }
  std::vector<std::uint32_t> ranks(dice.one_in(2) ? count : 0);
  std::iota(ranks.begin(), ranks.end(), 0U);
  for (std::size_t i = ranks.size(); i > 1; --i) {
    std::swap(ranks[i - 1], ranks[dice.below(i)]);
  }
  return {Shape(std::span<const std::uint64_t>(chosen)), axes, ranks};
}

inline std::vector<std::vector<std::string>> random_spec(Dice& dice, const Mesh& mesh, std::size_t rank) {
  std::vector<std::vector<std::string>> spec(rank);
  std::vector<std::string> axes(mesh.axes().begin(), mesh.axes().end());
  for (std::size_t i = axes.size(); i > 1; --i) {
    std::swap(axes[i - 1], axes[dice.below(i)]);
  }
  for (const std::string& axis : axes) {
    if (rank > 0 && !dice.one_in(3)) {
      spec[dice.below(rank)].push_back(axis);
    }
  }
  return spec;
}

inline std::vector<Placement> random_placements(Dice& dice, const Mesh& mesh, std::size_t rank) {
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    const std::uint64_t split = dice.one_in(3) ? 1 + dice.below(mesh.size()) : 1;
    placements.push_back(rank == 0 || dice.one_in(3) ? Placement::replicate()
                                                     : Placement::shard(dice.below(rank), split));
  }
  return placements;
}

/// Of any kind, for arrays of that shape.
inline Sharding random_sharding(Dice& dice, const Shape& shape) {
  const Mesh mesh = random_mesh(dice);
  switch (dice.below(4)) {
    case 0:
      return Sharding::replicated(1 + static_cast<std::uint32_t>(dice.below(9)));
    case 1:
      return Sharding::of_spec(mesh, random_spec(dice, mesh, shape.size()));
    case 2:
      return Sharding::of_placements(mesh, random_placements(dice, mesh, shape.size()));
    default:
      return Sharding::of_placements(mesh, random_placements(dice, mesh, shape.size())).as_boxes(shape);
  }
}

}  // namespace cairn::testing
