// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <vector>

#include "cairn/handlers/sharded_array.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "handlers/store.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

/// The halves of [0, 1, 2, 3, 4, 5, 6, 7], a matrix of four rows.
ShardedArray halves() {
  const auto rows = Sharding::of_spec(Mesh({2}, {"data"}), {{"data"}});
  std::vector<Shard> shards;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    std::vector<std::int32_t> half(4);
    for (std::int32_t i = 0; i < 4; ++i) {
      half[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(rank) * 4 + i;
    }
    shards.push_back({rows.boxes(rank, {4, 2})[0].box, Array::adopt(std::move(half)).reshaped({2, 2})});
  }
  return {{4, 2}, DType::int32, std::move(shards), std::make_shared<const Sharding>(rows)};
}

class ShardedArrayHandlerTest : public testing::StoreTest {};

TEST_F(ShardedArrayHandlerTest, BringsBackWhatWasSaved) {
  save(halves());

  const auto loaded = load<ShardedArray>();

  EXPECT_EQ(loaded, halves());
  EXPECT_EQ(loaded.layout()->hash(), halves().layout()->hash());
}

TEST_F(ShardedArrayHandlerTest, TellsHowItIsStored) {
  save(halves());

  const auto stored = metadata<AbstractShardedArray>();

  EXPECT_EQ(stored, AbstractShardedArray(halves()));
  const Description description = item_metadata().description();
  EXPECT_EQ(description.kind, "sharded array");
  EXPECT_EQ(description.arrays.size(), 1u);
}

TEST_F(ShardedArrayHandlerTest, BringsOtherBoxes) {
  save(halves());
  std::vector<std::int64_t> column(4);
  AbstractShardedArray wanted({4, 2}, DType::int64);
  wanted.place_into(Box({0, 1}, {4, 1}), MutableArrayView(column.data(), {4, 1}, DType::int64));

  static_cast<void>(load<ShardedArray>({"item", wanted}));

  EXPECT_THAT(column, ElementsAre(1, 3, 5, 7));
}

TEST_F(ShardedArrayHandlerTest, IsLoadedAsAnArrayOrInATree) {
  save(halves());

  EXPECT_THAT(load<Array>({"item", AbstractArray({4, 2}, DType::int32)}).data<const std::int32_t>(),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  AbstractTree tree = AbstractArray({4, 2}, DType::int32);
  EXPECT_EQ(load<Tree>({"item", tree}).as<Array>().shape(), Shape({4, 2}));
}

TEST_F(ShardedArrayHandlerTest, LoadsWhatWasSavedAsAnArray) {
  save(std::vector<std::int32_t>{1, 2, 3, 4});
  AbstractShardedArray wanted({4}, DType::int32);
  wanted.want(Box({1}, {2}));

  EXPECT_THAT(load<ShardedArray>({"item", wanted}).shards()[0].data.data<const std::int32_t>(),
              ElementsAre(2, 3));
}

TEST_F(ShardedArrayHandlerTest, IsCutByAPolicy) {
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(8)));

  save(halves(), options);

  EXPECT_EQ(metadata<AbstractShardedArray>().shards.size(), 4u);
  AbstractShardedArray wanted({4, 2}, DType::int32);
  wanted.want(Box::whole({4, 2}));
  EXPECT_THAT(load<ShardedArray>({"item", wanted}).shards()[0].data.data<const std::int32_t>(),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(ShardedArrayHandlerTest, RefusesBoxesThatAreNotThere) {
  save(halves());
  AbstractShardedArray wanted({4, 2}, DType::int32);
  wanted.shards.push_back({Box({3, 0}, {2, 2}), {}, 0});

  EXPECT_THAT(
      [&] {
        static_cast<void>(load<ShardedArray>({"item", wanted}));
      },
      Fails(Errc::invalid_argument, HasSubstr("[3:5, 0:2]")));
}

}  // namespace
}  // namespace cairn
