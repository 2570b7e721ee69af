// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/sharding.hpp"

#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "sharding/rules.hpp"

namespace cairn {

Sharding Sharding::replicated(std::uint32_t ranks) {
  sharding_detail::check_rank_count(ranks);
  return Sharding(std::make_shared<sharding_detail::ReplicatedRule>(ranks));
}

Sharding Sharding::of_spec(Mesh mesh, std::vector<std::vector<std::string>> spec) {
  return Sharding(std::make_shared<sharding_detail::SpecRule>(std::move(mesh), std::move(spec)));
}

Sharding Sharding::of_placements(Mesh mesh, std::vector<Placement> placements) {
  return Sharding(std::make_shared<sharding_detail::PlacementRule>(std::move(mesh), std::move(placements)));
}

Sharding Sharding::of_grid(Shape parts, std::vector<std::uint32_t> part_of_rank) {
  return Sharding(std::make_shared<sharding_detail::PartsRule>(std::move(parts), std::move(part_of_rank)));
}

Sharding Sharding::of_boxes(const std::vector<std::vector<PlacedBox>>& by_rank) {
  sharding_detail::check_rank_count(by_rank.size());
  auto table = std::make_shared<sharding_detail::TableRule>();
  for (std::uint32_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const PlacedBox& placed : by_rank[rank]) {
      table->add(rank, placed.box, placed.replica);
    }
  }
  table->finish(static_cast<std::uint32_t>(by_rank.size()));
  return Sharding(std::move(table));
}

Sharding::Kind Sharding::kind() const noexcept {
  return rule_->kind();
}

std::uint32_t Sharding::ranks() const noexcept {
  return rule_->ranks();
}

std::vector<PlacedBox> Sharding::boxes(std::uint32_t rank, const Shape& shape) const {
  if (rank >= ranks()) {
    throw Error(Errc::invalid_argument, fmt::format("sharding: there is no rank {} among {}", rank, ranks()));
  }
  if (!element_count(shape)) {
    throw Error(Errc::invalid_argument, fmt::format("sharding: shape {} has too many elements", shape));
  }
  return rule_->boxes(rank, shape);
}

Hash128 Sharding::hash() const {
  return hash_text(to_json());
}

}  // namespace cairn
