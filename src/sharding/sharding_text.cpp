// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/sharding/sharding.hpp"

#include "sharding/rules.hpp"

namespace cairn {
namespace sharding_detail {
namespace {

std::string on_mesh(const Mesh& mesh, const std::vector<std::string>& cuts, std::string_view kind) {
  return fmt::format("{} ({}) on mesh ({})", kind, fmt::join(cuts, ", "), to_string(mesh));
}

}  // namespace

std::string ReplicatedRule::text() const {
  return fmt::format("replicated on {} ranks", ranks_);
}

std::string SpecRule::text() const {
  std::vector<std::string> cuts;
  for (const std::vector<std::size_t>& numbers : axes_) {
    std::vector<std::string> names;
    for (const std::size_t axis : numbers) {
      names.push_back(mesh().axes()[axis]);
    }
    const std::string joined = fmt::format("{}", fmt::join(names, ", "));
    cuts.push_back(names.empty() ? "none" : names.size() == 1 ? joined : "[" + joined + "]");
  }
  return on_mesh(mesh(), cuts, "spec");
}

std::string PlacementRule::text() const {
  std::vector<std::string> cuts;
  for (const Placement& placement : placements_) {
    if (!placement.dimension) {
      cuts.emplace_back("replicate");
    } else if (placement.split_factor == 1) {
      cuts.push_back(fmt::format("shard {}", *placement.dimension));
    } else {
      cuts.push_back(fmt::format("shard {} split {}", *placement.dimension, placement.split_factor));
    }
  }
  return on_mesh(mesh(), cuts, "placements");
}

std::string PartsRule::text() const {
  return fmt::format("grid {} of {} ranks", to_string(parts_), part_of_rank_.size());
}

std::string TableRule::text() const {
  return fmt::format("table of {} boxes on {} ranks", size(), ranks());
}

}  // namespace sharding_detail

std::string to_string(const Sharding& sharding) {
  return sharding.rule().text();
}

}  // namespace cairn
