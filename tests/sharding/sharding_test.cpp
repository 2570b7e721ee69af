// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/sharding.hpp"

#include <set>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "sharding/slow_model.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Dice;
using testing::Element;
using testing::Fails;
using ::testing::HasSubstr;

/// The rows that each rank has of an array of rank 1: "0:2" or "0:2 4:5"; empty boxes as "5:5".
std::vector<std::string> rows(const Sharding& sharding, std::uint64_t extent) {
  std::vector<std::string> result;
  for (std::uint32_t rank = 0; rank < sharding.ranks(); ++rank) {
    std::string& text = result.emplace_back();
    for (const PlacedBox& placed : sharding.boxes(rank, {extent})) {
      text += (text.empty() ? "" : " ") + std::to_string(placed.box.begin(0)) + ":" +
              std::to_string(placed.box.end(0));
    }
  }
  return result;
}

using Rows = std::vector<std::string>;

// ---- Tables by hand.

TEST(ShardingReplicated, GivesEveryRankAllOfIt) {
  const Sharding sharding = Sharding::replicated(3);

  EXPECT_EQ(sharding.boxes(2, {2, 5}), (std::vector<PlacedBox>{{Box::whole({2, 5}), 2}}));
  EXPECT_EQ(sharding.boxes(0, Shape{}), (std::vector<PlacedBox>{{Box(), 0}}));
}

TEST(ShardingOfSpec, CutsTheFirstAxisOutermost) {
  const Mesh mesh({2, 2}, {"a", "b"});

  EXPECT_EQ(rows(Sharding::of_spec(mesh, {{"a", "b"}}), 8), (Rows{"0:2", "2:4", "4:6", "6:8"}));
  EXPECT_EQ(rows(Sharding::of_spec(mesh, {{"b", "a"}}), 8), (Rows{"0:2", "4:6", "2:4", "6:8"}));
}

TEST(ShardingOfSpec, HasShorterAndEmptyBlocksAtTheEnd) {
  EXPECT_EQ(rows(Sharding::of_spec(Mesh({2, 2}, {"a", "b"}), {{"a", "b"}}), 5),
            (Rows{"0:2", "2:4", "4:5", "5:5"}));
  EXPECT_EQ(rows(Sharding::of_spec(Mesh({4}, {"a"}), {{"a"}}), 2), (Rows{"0:1", "1:2", "2:2", "2:2"}));
}

TEST(ShardingOfSpec, NumbersReplicasByTheAxesThatCutNothing) {
  const Sharding sharding = Sharding::of_spec(Mesh({2, 2, 2}, {"a", "b", "c"}), {{}, {"b"}});

  EXPECT_EQ(sharding.boxes(0b011, {3, 4}), (std::vector<PlacedBox>{{Box({0, 2}, {3, 2}), 1}}));
  EXPECT_EQ(sharding.boxes(0b100, {3, 4}), (std::vector<PlacedBox>{{Box({0, 0}, {3, 2}), 2}}));
}

TEST(ShardingOfSpec, GivesNothingToRanksThatTheMeshLacks) {
  const Sharding sharding = Sharding::of_spec(Mesh({2}, {"a"}, {1, 3}), {{"a"}});

  EXPECT_EQ(rows(sharding, 4), (Rows{"", "0:2", "", "2:4"}));
}

// As torch.chunk(arange(11), 6).
TEST(ShardingOfPlacements, ChunksAsTorchDoes) {
  EXPECT_EQ(rows(Sharding::of_placements(Mesh({6}, {"a"}), {Placement::shard(0)}), 11),
            (Rows{"0:2", "2:4", "4:6", "6:8", "8:10", "10:11"}));
  EXPECT_EQ(rows(Sharding::of_placements(Mesh({4}, {"a"}), {Placement::shard(0)}), 5),
            (Rows{"0:2", "2:4", "4:5", "5:5"}));
}

TEST(ShardingOfPlacements, ChunksChunks) {
  const Sharding nested =
      Sharding::of_placements(Mesh({2, 2}, {"a", "b"}), {Placement::shard(0), Placement::shard(0)});

  EXPECT_EQ(rows(nested, 5), (Rows{"0:2", "2:3", "3:4", "4:5"}));
  EXPECT_EQ(rows(nested, 3), (Rows{"0:1", "1:2", "2:3", "3:3"}));
}

// The table in the documentation of torch's _StridedShard.
TEST(ShardingOfPlacements, CutsRightToLeftWithASplitFactor) {
  const Sharding strided =
      Sharding::of_placements(Mesh({2, 2}, {"dp", "tp"}), {Placement::shard(0, 2), Placement::shard(0)});

  EXPECT_EQ(rows(strided, 8), (Rows{"0:2", "4:6", "2:4", "6:8"}));
}

TEST(ShardingOfPlacements, HasSeveralBoxesWhereAStrideIsNotClosed) {
  const Sharding strided =
      Sharding::of_placements(Mesh({2, 2}, {"dp", "tp"}), {Placement::shard(0, 3), Placement::replicate()});

  EXPECT_EQ(rows(strided, 12), (Rows{"0:2 4:6 8:10", "0:2 4:6 8:10", "2:4 6:8 10:12", "2:4 6:8 10:12"}));
}

TEST(ShardingOfGrid, GivesEveryRankItsPart) {
  const Sharding sharding = Sharding::of_grid({2, 2}, {3, 0, Sharding::kNoPart, 3});

  EXPECT_EQ(sharding.boxes(0, {4, 6}), (std::vector<PlacedBox>{{Box({2, 3}, {2, 3}), 0}}));
  EXPECT_EQ(sharding.boxes(1, {4, 6}), (std::vector<PlacedBox>{{Box({0, 0}, {2, 3}), 0}}));
  EXPECT_TRUE(sharding.boxes(2, {4, 6}).empty());
  EXPECT_EQ(sharding.boxes(3, {4, 6}), (std::vector<PlacedBox>{{Box({2, 3}, {2, 3}), 1}}));
}

TEST(ShardingOfBoxes, GivesBackTheBoxes) {
  const std::vector<PlacedBox> first = {{Box({0}, {2}), 0}, {Box({4}, {1}), 0}};
  const Sharding sharding = Sharding::of_boxes({first, {}, {{Box({2}, {2}), 0}}});

  EXPECT_EQ(sharding.boxes(0, {5}), first);
  EXPECT_TRUE(sharding.boxes(1, {5}).empty());
  EXPECT_EQ(rows(sharding, 5), (Rows{"0:2 4:5", "", "2:4"}));
}

// ---- Bad input.

TEST(Sharding, RefusesWhatIsNoLayout) {
  const auto fails = [](const char* why) { return Fails(Errc::invalid_argument, HasSubstr(why)); };
  const Mesh mesh({2, 2}, {"a", "b"});

  EXPECT_THAT([] { return Sharding::replicated(0); }, fails("world size 0"));
  EXPECT_THAT([] { return Sharding::of_boxes({}); }, fails("world size 0"));
  EXPECT_THAT([] { return Sharding::of_grid({1}, {}); }, fails("world size 0"));
  EXPECT_THAT([] { return Sharding::replicated(kMaxRanks + 1); }, fails("more than"));
  EXPECT_THAT([&] { return Sharding::of_spec(mesh, {{"c"}}); }, fails("no axis 'c' in (a=2, b=2)"));
  EXPECT_THAT(
      [&] {
        return Sharding::of_spec(mesh, {{"a"}, {"a"}});
      },
      fails("axis 'a' of (a=2, b=2) is used twice"));
  EXPECT_THAT([&] { return Sharding::of_placements(mesh, {Placement::shard(0)}); }, fails("1 placements"));
  EXPECT_THAT(
      [&] {
        return Sharding::of_placements(mesh, {Placement::shard(0, 0), {}});
      },
      fails("split factor 0"));
  EXPECT_THAT(
      [&] {
        return Sharding::of_placements(mesh, {Placement::shard(64), {}});
      },
      fails("dimension 64"));
  EXPECT_THAT([] { return Sharding::of_grid({0}, {0}); }, fails("grid of [0]"));
  EXPECT_THAT([] { return Sharding::of_grid({2}, {0, 2}); }, fails("rank 1 holds part 2"));
  EXPECT_THAT([] { return Sharding::of_grid({2}, {0}); }, fails("1 ranks cannot hold the 2 parts"));
  EXPECT_THAT([] { return Sharding::of_boxes({{{Box({0}, {1}), 0}}, {{Box(), 0}}}); }, fails("rank 1"));
}

TEST(ShardingBoxes, RefusesRanksAndShapesThatDoNotFit) {
  const auto fails = [](const char* why) { return Fails(Errc::invalid_argument, HasSubstr(why)); };
  const Sharding rows = Sharding::of_spec(Mesh({2}, {"a"}), {{}, {"a"}});

  EXPECT_THAT([&] { return rows.boxes(2, {4, 4}); }, fails("no rank 2 among 2"));
  EXPECT_THAT([&] { return rows.boxes(0, {4}); }, fails("cuts dimension 1 of an array of shape [4]"));
  EXPECT_THAT([&] { return rows.boxes(0, {UINT64_MAX, UINT64_MAX}); }, fails("too many elements"));
  EXPECT_THAT(
      [] {
        return Sharding::of_grid({2}, {0, 1}).boxes(0, {3});
      },
      fails("shape [3] cannot be cut into [2] equal parts"));
  EXPECT_THAT(
      [] {
        return Sharding::of_boxes({{{Box({0}, {4}), 0}}}).boxes(0, {3});
      },
      fails("not within shape [3]"));
}

TEST(ShardingBoxes, RefusesMoreBoxesThanMakeSense) {
  const Mesh mesh({1 << 20, 2}, {"a", "b"});
  const Sharding strided = Sharding::of_placements(mesh, {{}, Placement::shard(0, 1 << 20)});

  EXPECT_THAT([&] { return strided.boxes(0, {1 << 22}); }, Fails(Errc::invalid_argument, HasSubstr("boxes")));
}

// ---- Against slow models.

/// torch's rules on lists of indexes: an own list for each dimension, one rank after the other.
std::vector<std::vector<std::uint64_t>> torch_indexes(const Shape& shape, const Mesh& mesh,
                                                      const std::vector<Placement>& placements,
                                                      std::uint32_t position) {
  using Indexes = std::vector<std::uint64_t>;
  const auto chunk = [](const Indexes& all, std::size_t count, std::size_t number) {
    const std::size_t size = (all.size() + count - 1) / count;
    Indexes result;
    for (std::size_t i = number * size; i < std::min((number + 1) * size, all.size()); ++i) {
      result.push_back(all[i]);
    }
    return result;
  };
  std::vector<Indexes> result;
  for (const std::uint64_t extent : shape) {
    result.emplace_back(extent);
    std::iota(result.back().begin(), result.back().end(), 0U);
  }
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (!placements[axis].dimension) {
      continue;
    }
    Indexes& indexes = result[*placements[axis].dimension];
    Indexes kept;
    for (std::size_t i = 0; i < placements[axis].split_factor; ++i) {
      const Indexes part = chunk(chunk(indexes, placements[axis].split_factor, i), mesh.extents()[axis],
                                 position / mesh.stride(axis) % mesh.extents()[axis]);
      kept.insert(kept.end(), part.begin(), part.end());
    }
    indexes = kept;
  }
  return result;
}

TEST(ShardingOfPlacements, HasTheElementsThatTorchsRulesGive) {
  Dice dice(3);
  for (int i = 0; i < 400; ++i) {
    const Shape shape = testing::random_shape(dice, 300);
    const Mesh mesh = testing::random_mesh(dice);
    const auto placements = testing::random_placements(dice, mesh, shape.size());
    const Sharding sharding = Sharding::of_placements(mesh, placements);
    for (std::uint32_t position = 0; position < mesh.size(); ++position) {
      std::set<Element> found;
      for (const PlacedBox& placed : sharding.boxes(mesh.rank_at(position), shape)) {
        for (const Element& element : testing::elements_of(placed.box)) {
          ASSERT_TRUE(found.insert(element).second) << sharding.to_json();
        }
      }
      const auto indexes = torch_indexes(shape, mesh, placements, position);
      std::set<Element> wanted;
      for (const Element& element : testing::elements_of(Box::whole(shape))) {
        bool is_held = true;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          is_held = is_held && std::count(indexes[d].begin(), indexes[d].end(), element[d]) == 1;
        }
        if (is_held) {
          wanted.insert(element);
        }
      }
      ASSERT_EQ(found, wanted) << sharding.to_json() << " " << shape << " at " << position;
    }
  }
}

TEST(ShardingOfSpec, HoldsEveryElementOnceForEachReplica) {
  Dice dice(4);
  for (int i = 0; i < 400; ++i) {
    const Shape shape = testing::random_shape(dice, 300);
    const Mesh mesh = testing::random_mesh(dice);
    const Sharding sharding = Sharding::of_spec(mesh, testing::random_spec(dice, mesh, shape.size()));
    std::map<std::uint32_t, std::vector<Box>> by_replica;
    for (std::uint32_t rank = 0; rank < sharding.ranks(); ++rank) {
      for (const PlacedBox& placed : sharding.boxes(rank, shape)) {
        by_replica[placed.replica].push_back(placed.box);
      }
    }
    const auto once = testing::count_elements({Box::whole(shape)});
    for (const auto& [replica, boxes] : by_replica) {
      ASSERT_EQ(testing::count_elements(boxes), once) << sharding.to_json() << " " << shape << " " << replica;
    }
  }
}

// ---- From one kind to another.

TEST(ShardingAs, SaysTheSameInAnotherWay) {
  Dice dice(5);
  int converted = 0;
  for (int i = 0; i < 600; ++i) {
    const Shape shape = testing::random_shape(dice, 300);
    const Sharding sharding = testing::random_sharding(dice, shape);
    for (const auto& other : {sharding.as_spec(shape), sharding.as_placements(shape), sharding.as_grid(shape),
                              std::optional(sharding.as_boxes(shape))}) {
      for (std::uint32_t rank = 0; other && rank < sharding.ranks(); ++rank) {
        ASSERT_EQ(other->boxes(rank, shape), sharding.boxes(rank, shape)) << other->to_json();
      }
      converted += other ? 1 : 0;
    }
  }
  EXPECT_GT(converted, 1200);
}

TEST(ShardingAs, TurnsSpecsIntoPlacementsAndBackWhereBlocksAreEqual) {
  const Mesh mesh({2, 2, 3}, {"dp", "tp", "pp"});
  const Sharding spec = Sharding::of_spec(mesh, {{"tp", "dp"}, {"pp"}});

  const std::optional<Sharding> placements = spec.as_placements({8, 6});

  EXPECT_EQ(placements, Sharding::of_placements(
                            mesh, {Placement::shard(0, 2), Placement::shard(0), Placement::shard(1)}));
  EXPECT_EQ(placements->as_spec({8, 6}), spec);
  EXPECT_EQ(Sharding::of_spec(mesh, {{"dp", "tp"}}).as_placements({5}),
            std::nullopt);  // Chunks of chunks differ.
}

TEST(ShardingAs, FindsTheRuleOfATable) {
  const Sharding rule = Sharding::of_spec(Mesh({2, 3}, {"a", "b"}), {{"b"}, {}});

  const Sharding table = rule.as_boxes({7, 2});

  EXPECT_EQ(table.as_spec({7, 2}),
            Sharding::of_spec(Mesh({3, 2}, {"d0", "replica"}, {0, 3, 1, 4, 2, 5}), {{"d0"}}));
  EXPECT_EQ(table.as_grid({7, 2}), std::nullopt);  // Its parts are not equal.
  EXPECT_EQ(rule.as_boxes({6, 2}).as_grid({6, 2}), Sharding::of_grid({3, 1}, {0, 1, 2, 0, 1, 2}));
}

TEST(ShardingAs, SaysNothingOfWhatIsNoGrid) {
  const Sharding two = Sharding::of_boxes({{{Box({0}, {1}), 0}, {Box({2}, {1}), 0}}, {{Box({1}, {1}), 0}}});

  EXPECT_EQ(two.as_spec({3}), std::nullopt);
  EXPECT_EQ(two.as_grid({3}), std::nullopt);
  EXPECT_EQ(two.as_placements({3}), std::nullopt);
}

}  // namespace
}  // namespace cairn
