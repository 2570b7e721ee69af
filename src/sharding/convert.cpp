// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/sharding/sharding.hpp"

#include "sharding/rules.hpp"

namespace cairn {
namespace {

using sharding_detail::MeshRule;
using sharding_detail::PlacementRule;
using sharding_detail::SpecRule;

/// Conversions propose; this decides.
std::optional<Sharding> if_same(const Sharding& asked, std::optional<Sharding> proposed, const Shape& shape) {
  if (!proposed || proposed->ranks() != asked.ranks()) {
    return std::nullopt;
  }
  for (std::uint32_t rank = 0; rank < asked.ranks(); ++rank) {
    if (proposed->boxes(rank, shape) != asked.boxes(rank, shape)) {
      return std::nullopt;
    }
  }
  return proposed;
}

/// Which part of a grid each rank has, where every rank has one box or none.
struct FoundGrid {
  Shape parts;
  std::vector<std::uint32_t> part_of_rank;
  std::vector<std::uint32_t> replicas;
};

std::optional<FoundGrid> find_grid(const Sharding& sharding, const Shape& shape) {
  FoundGrid grid{Shape(shape.size(), 1), {}, {}};
  std::vector<std::map<std::uint64_t, std::uint32_t>> begins(shape.size());
  std::vector<std::optional<PlacedBox>> held;
  for (std::uint32_t rank = 0; rank < sharding.ranks(); ++rank) {
    std::vector<PlacedBox> boxes = sharding.boxes(rank, shape);
    if (boxes.size() > 1) {
      return std::nullopt;
    }
    held.push_back(boxes.empty() ? std::nullopt : std::optional(std::move(boxes[0])));
    for (std::size_t d = 0; held.back() && d < shape.size(); ++d) {
      begins[d].emplace(held.back()->box.begin(d), 0);
    }
  }
  std::uint64_t parts = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::uint32_t number = 0;
    for (auto& [begin, piece] : begins[d]) {
      piece = number++;
    }
    grid.parts[d] = std::max<std::uint64_t>(number, 1);
    if (grid.parts[d] > sharding.ranks() || (parts *= grid.parts[d]) > sharding.ranks()) {
      return std::nullopt;
    }
  }
  for (const std::optional<PlacedBox>& placed : held) {
    std::uint32_t part = 0;
    for (std::size_t d = 0; placed && d < shape.size(); ++d) {
      part = part * static_cast<std::uint32_t>(grid.parts[d]) + begins[d].at(placed->box.begin(d));
    }
    grid.part_of_rank.push_back(placed ? part : Sharding::kNoPart);
    grid.replicas.push_back(placed ? placed->replica : 0);
  }
  return grid;
}

/// A mesh of the parts and their replicas, where all have as many.
std::optional<Sharding> spec_of_grid(const FoundGrid& grid) {
  const std::uint64_t parts =
      std::accumulate(grid.parts.begin(), grid.parts.end(), std::uint64_t{1}, std::multiplies<>());
  const std::uint64_t replicas = grid.part_of_rank.size() / parts;
  std::vector<std::uint32_t> ranks(grid.part_of_rank.size(), Sharding::kNoPart);
  if (replicas * parts != grid.part_of_rank.size()) {
    return std::nullopt;
  }
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const std::uint32_t part = grid.part_of_rank[rank];
    if (part == Sharding::kNoPart || grid.replicas[rank] >= replicas) {
      return std::nullopt;
    }
    std::uint32_t& place = ranks[part * replicas + grid.replicas[rank]];
    if (std::exchange(place, rank) != Sharding::kNoPart) {
      return std::nullopt;
    }
  }
  std::vector<std::uint64_t> extents;
  std::vector<std::string> axes;
  std::vector<std::vector<std::string>> spec;
  for (std::size_t d = 0; d < grid.parts.size(); ++d) {
    spec.emplace_back();
    if (grid.parts[d] > 1) {
      extents.push_back(grid.parts[d]);
      axes.push_back("d" + std::to_string(d));
      spec.back().push_back(axes.back());
    }
  }
  if (replicas > 1) {
    extents.push_back(replicas);
    axes.emplace_back("replica");
  }
  return Sharding::of_spec(
      Mesh(Shape(std::span<const std::uint64_t>(extents)), std::move(axes), std::move(ranks)),
      std::move(spec));
}

/// The axes that cut each dimension, the outermost first: a split factor says how many chunks the later axes had made.
std::optional<Sharding> spec_of_placements(const PlacementRule& rule) {
  std::vector<std::vector<std::size_t>> order;
  const Mesh& mesh = rule.mesh();
  for (std::size_t axis = mesh.axes().size(); axis-- > 0;) {
    const Placement& placement = rule.placements()[axis];
    if (!placement.dimension) {
      continue;
    }
    if (*placement.dimension >= order.size()) {
      order.resize(*placement.dimension + 1);
    }
    std::vector<std::size_t>& axes = order[*placement.dimension];
    std::uint64_t chunks = 1;
    auto place = axes.begin();
    while (place != axes.end() && chunks < placement.split_factor) {
      chunks *= mesh.extents()[*place++];
    }
    if (chunks != placement.split_factor) {
      return std::nullopt;
    }
    axes.insert(place, axis);
  }
  std::vector<std::vector<std::string>> spec;
  for (const std::vector<std::size_t>& axes : order) {
    spec.emplace_back();
    for (const std::size_t axis : axes) {
      spec.back().push_back(mesh.axes()[axis]);
    }
  }
  return Sharding::of_spec(mesh, std::move(spec));
}

Sharding placements_of_spec(const SpecRule& rule) {
  std::vector<Placement> placements(rule.mesh().axes().size());
  for (std::size_t d = 0; d < rule.axes().size(); ++d) {
    const std::vector<std::size_t>& axes = rule.axes()[d];
    for (std::size_t i = 0; i < axes.size(); ++i) {
      std::uint64_t split_factor = 1;  // Of the axes that cut before this one, but are applied after it.
      for (std::size_t before = 0; before < i; ++before) {
        split_factor *= axes[before] > axes[i] ? rule.mesh().extents()[axes[before]] : 1;
      }
      placements[axes[i]] = Placement::shard(d, split_factor);
    }
  }
  return Sharding::of_placements(rule.mesh(), std::move(placements));
}

}  // namespace

std::optional<Sharding> Sharding::as_spec(const Shape& shape) const {
  if (kind() == Kind::spec) {
    return *this;
  }
  if (const auto* placements = dynamic_cast<const PlacementRule*>(rule_.get())) {
    return if_same(*this, spec_of_placements(*placements), shape);
  }
  const std::optional<FoundGrid> grid = find_grid(*this, shape);
  return if_same(*this, grid ? spec_of_grid(*grid) : std::nullopt, shape);
}

std::optional<Sharding> Sharding::as_placements(const Shape& shape) const {
  if (kind() == Kind::placements) {
    return *this;
  }
  const std::optional<Sharding> spec = as_spec(shape);
  if (!spec) {
    return std::nullopt;
  }
  return if_same(*this, placements_of_spec(dynamic_cast<const SpecRule&>(*spec->rule_)), shape);
}

std::optional<Sharding> Sharding::as_grid(const Shape& shape) const {
  if (kind() == Kind::grid) {
    return *this;
  }
  const std::optional<FoundGrid> grid = find_grid(*this, shape);
  if (!grid) {
    return std::nullopt;
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] % grid->parts[d] != 0) {
      return std::nullopt;
    }
  }
  return if_same(*this, of_grid(grid->parts, grid->part_of_rank), shape);
}

Sharding Sharding::as_boxes(const Shape& shape) const {
  auto table = std::make_shared<sharding_detail::TableRule>();
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    for (const PlacedBox& placed : boxes(rank, shape)) {
      table->add(rank, placed.box, placed.replica);
    }
  }
  table->finish(ranks());
  return Sharding(std::move(table));
}

}  // namespace cairn
