// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "cairn/sharding/sharding.hpp"

namespace cairn {
namespace {

TEST(ShardingText, SaysALayoutInALine) {
  const Mesh mesh({2, 2, 3}, {"data", "model", "seq"});

  EXPECT_EQ(to_string(Sharding::of_spec(mesh, {{"data"}, {}, {"model", "seq"}})),
            "spec (data, none, [model, seq]) on mesh (data=2, model=2, seq=3)");
  EXPECT_EQ(to_string(Sharding::of_placements(
                mesh, {Placement::shard(0, 2), Placement::replicate(), Placement::shard(1)})),
            "placements (shard 0 split 2, replicate, shard 1) on mesh (data=2, model=2, seq=3)");
  EXPECT_EQ(to_string(Sharding::of_grid({2, 1}, {0, 1, Sharding::kNoPart})), "grid [2, 1] of 3 ranks");
  EXPECT_EQ(to_string(Sharding::of_boxes({{{Box({0}, {2}), 0}}, {{Box({0}, {2}), 1}}})),
            "table of 2 boxes on 2 ranks");
  EXPECT_EQ(to_string(Sharding::replicated(3)), "replicated on 3 ranks");
}

}  // namespace
}  // namespace cairn
