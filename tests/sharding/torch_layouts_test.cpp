// SPDX-License-Identifier: Apache-2.0
// Placements against what torch says of the same; tests/data/sharding/make_torch_layouts.py has asked it.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/sharding/sharding.hpp"

#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn {
namespace {

using Elements = std::set<std::uint64_t>;
using nlohmann::json;

Shape shape_of(const json& extents) {
  const auto numbers = extents.get<std::vector<std::uint64_t>>();
  return Shape(std::span<const std::uint64_t>(numbers));
}

/// The row-major numbers of the elements of a box.
Elements elements_of(const Box& box, const Shape& shape) {
  Elements elements{0};
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    Elements finer;
    for (const std::uint64_t outer : elements) {
      for (std::uint64_t i = box.begin(dimension); i < box.end(dimension); ++i) {
        finer.insert(outer * shape[dimension] + i);
      }
    }
    elements = std::move(finer);
  }
  return elements;
}

Elements elements_of(const json& ranges) {
  Elements elements;
  for (const json& range : ranges) {
    for (std::uint64_t i = range[0]; i < range[1]; ++i) {
      elements.insert(i);
    }
  }
  return elements;
}

void expect_table(const Sharding& sharding, const json& table) {
  const Shape shape = shape_of(table.at("shape"));
  const json& ranks = table.at("ranks");
  ASSERT_EQ(sharding.ranks(), ranks.size());
  for (std::uint32_t rank = 0; rank < sharding.ranks(); ++rank) {
    Elements held;
    for (const PlacedBox& placed : sharding.boxes(rank, shape)) {
      held.merge(elements_of(placed.box, shape));
    }
    EXPECT_EQ(held, elements_of(ranks[rank].at("elements"))) << "rank " << rank;
  }
}

/// The same said in other ways, where it can be.
void expect_table_in_all_ways(const Sharding& sharding, const json& table) {
  SCOPED_TRACE(table.dump());
  const Shape shape = shape_of(table.at("shape"));
  expect_table(sharding, table);
  expect_table(sharding.as_boxes(shape), table);
  for (const std::optional<Sharding>& other :
       {sharding.as_spec(shape), sharding.as_placements(shape), sharding.as_grid(shape)}) {
    if (other) {
      expect_table(*other, table);
    }
  }
}

TEST(TorchLayouts, AreThoseOfPlacements) {
  const json tables = json::parse(testing::read_text(testing::test_data() / "sharding/torch_layouts.json"));
  ASSERT_EQ(tables.size(), 21u);
  for (const json& table : tables) {
    std::vector<std::string> axes;
    std::vector<Placement> placements;
    for (const json& said : table.at("placements")) {
      axes.push_back("d" + std::to_string(axes.size()));
      placements.push_back(said.is_null() ? Placement::replicate() : Placement::shard(said[0], said[1]));
    }
    expect_table_in_all_ways(Sharding::of_placements(Mesh(shape_of(table.at("mesh")), axes), placements),
                             table);
  }
}

}  // namespace
}  // namespace cairn
