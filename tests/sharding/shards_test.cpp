// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/shards.hpp"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

Sharding rows_of_four() {
  return Sharding::of_spec(Mesh({4}, {"data"}), {{"data"}});
}

TEST(Shard, PlacesWhatARankHasWhereTheLayoutSays) {
  const ShardedArray array = shard(rows_of_four(), 1, {7, 3}, Array::zeros({2, 3}, DType::float32));

  ASSERT_EQ(array.shards().size(), 1u);
  EXPECT_EQ(array.shards()[0].box, Box({2, 0}, {2, 3}));
  ASSERT_NE(array.layout(), nullptr);
  EXPECT_EQ(array.layout()->hash(), rows_of_four().hash());
}

TEST(Shard, TakesNothingFromARankThatHasNothing) {
  const ShardedArray array = shard(rows_of_four(), 3, {3, 3}, Array({0}, DType::float32));

  EXPECT_EQ(array.dtype(), DType::float32);
  for (const Shard& one : array.shards()) {
    EXPECT_TRUE(one.box.is_empty());
  }
}

TEST(Shard, RefusesAnArrayOfAnotherShape) {
  EXPECT_THAT(
      [] {
        return shard(rows_of_four(), 1, {7, 3}, Array::zeros({3, 2}, DType::float32));
      },
      Fails(Errc::shape_mismatch, HasSubstr("[2:4, 0:3]")));
}

TEST(Shard, TakesAnArrayForEachBox) {
  // Of 8 rows, cut into 2 and each of these into 2: position 0 holds rows 0:2 and 4:6.
  const auto strided = Sharding::of_placements(Mesh({2}, {"data"}), {Placement::shard(0, 2)});
  const std::vector<PlacedBox> boxes = strided.boxes(0, {8});
  ASSERT_EQ(boxes.size(), 2u);

  const ShardedArray array =
      shard(strided, 0, {8}, DType::int32, {Array({2}, DType::int32), Array({2}, DType::int32)});

  EXPECT_EQ(array.shards()[1].box, boxes[1].box);
  EXPECT_THAT([&] { return shard(strided, 0, {8}, Array({4}, DType::int32)); },
              Fails(Errc::invalid_argument, HasSubstr("2 boxes")));
  EXPECT_THAT([&] { return shard(strided, 0, {8}, DType::int32, {Array({2}, DType::int32)}); },
              Fails(Errc::invalid_argument, HasSubstr("1 arrays")));
}

TEST(Wanted, IsWhatTheLayoutGivesTheRank) {
  AbstractArray array({7, 3}, DType::bfloat16);
  array.allows_narrowing = true;

  const AbstractShardedArray sharded = wanted(array, rows_of_four(), 3);

  ASSERT_EQ(sharded.shards.size(), 1u);
  EXPECT_EQ(sharded.shards[0].box, Box({6, 0}, {1, 3}));
  EXPECT_EQ(sharded.dtype, DType::bfloat16);
  EXPECT_TRUE(sharded.allows_narrowing);
  EXPECT_NE(sharded.layout, nullptr);
}

TEST(Wanted, GoesToItsPartOfTheDestination) {
  const Array whole = Array::zeros({7, 3}, DType::float32);
  AbstractArray array({7, 3}, DType::float32);
  array.place_into(whole);

  const AbstractShardedArray sharded = wanted(array, rows_of_four(), 1);

  EXPECT_EQ(sharded.shards[0].destination->view().data(), whole.view().data() + 2 * 3 * sizeof(float));
}

}  // namespace
}  // namespace cairn
