// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "cairn/sharding/sharding.hpp"

#include "sharding/slow_model.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Dice;
using testing::Fails;
using ::testing::HasSubstr;

TEST(ShardingJson, IsOneLineForPeople) {
  const Mesh mesh({2, 2}, {"data", "model"}, {3, 2, 1, 0});

  EXPECT_EQ(
      Sharding::of_spec(mesh, {{"model"}, {}}).to_json(),
      R"({"kind":"spec","mesh":{"extents":[2,2],"axes":["data","model"],"ranks":[3,2,1,0]},"spec":[["model"]]})");
  EXPECT_EQ(
      Sharding::of_placements(Mesh({2, 2}, {"dp", "tp"}), {Placement::shard(0, 2), Placement::replicate()})
          .to_json(),
      R"({"kind":"placements","mesh":{"extents":[2,2],"axes":["dp","tp"]},)"
      R"("placements":[{"dimension":0,"split_factor":2},{}]})");
  EXPECT_EQ(Sharding::of_grid({2}, {0, 1, Sharding::kNoPart}).to_json(),
            R"({"kind":"grid","parts":[2],"part_of_rank":[0,1,null]})");
  EXPECT_EQ(Sharding::of_boxes({{{Box({0}, {2}), 0}}, {{Box({0}, {2}), 1}}}).to_json(),
            R"({"kind":"table","by_rank":[[{"offsets":[0],"extents":[2]}],)"
            R"([{"offsets":[0],"extents":[2],"replica":1}]]})");
  EXPECT_EQ(Sharding::replicated(3).to_json(), R"({"kind":"replicated","ranks":3})");
}

TEST(ShardingJson, ComesBackEqual) {
  Dice dice(2);
  for (int i = 0; i < 300; ++i) {
    const Shape shape = testing::random_shape(dice, 200);
    const Sharding sharding = testing::random_sharding(dice, shape);

    const Sharding read = Sharding::from_json(sharding.to_json(), "layout");

    ASSERT_EQ(read, sharding) << sharding.to_json();
    ASSERT_EQ(read.hash(), sharding.hash());
    ASSERT_EQ(read.ranks(), sharding.ranks());
    for (std::uint32_t rank = 0; rank < read.ranks(); ++rank) {
      ASSERT_EQ(read.boxes(rank, shape), sharding.boxes(rank, shape));
    }
  }
}

TEST(ShardingJson, IsRefusedWhenItIsNoSharding) {
  const auto reading = [](std::string text) {
    return [text = std::move(text)] { return Sharding::from_json(text, "layout 3"); };
  };
  const auto fails = [](const char* why) {
    return Fails(Errc::malformed_metadata, ::testing::AllOf(HasSubstr("layout 3"), HasSubstr(why)));
  };

  EXPECT_THAT(reading("{}"), fails("kind"));
  EXPECT_THAT(reading(R"({"kind":"ring","ranks":3})"), fails("unknown kind"));
  EXPECT_THAT(reading(R"({"ranks":3,"kind":"replicated"})"), fails("must come first"));
  EXPECT_THAT(reading(R"({"kind":"replicated"})"), fails("missing"));
  EXPECT_THAT(reading(R"({"kind":"replicated","ranks":3,"more":1})"), fails("unknown member"));
  EXPECT_THAT(reading(R"({"kind":"replicated","ranks":0})"), fails("world size 0"));
  EXPECT_THAT(reading(R"({"kind":"replicated","ranks":4294967296})"), fails("too large"));
  EXPECT_THAT(reading(R"({"kind":"spec","spec":[]})"), fails("missing"));
  EXPECT_THAT(reading(R"({"kind":"spec","mesh":{"extents":[2],"axes":["a"]},"spec":[["b"]]})"),
              fails("no axis 'b'"));
  EXPECT_THAT(reading(R"({"kind":"grid","parts":[2],"part_of_rank":[0,2]})"), fails("part 2"));
  EXPECT_THAT(reading(R"({"kind":"table","by_rank":[[{"offsets":[1],"extents":[1,2]}]]})"),
              fails("do not form a box"));
  EXPECT_THAT(reading(R"({"kind":"replicated","ranks":3} )"
                      "x"),
              fails(""));
}

}  // namespace
}  // namespace cairn
