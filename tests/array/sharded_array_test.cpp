// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/sharded_array.hpp"

#include <vector>

#include <gmock/gmock.h>

#include "cairn/array/abstract_sharded_array.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

const Box kUpper({0, 0}, {2, 3});
const Box kLower({2, 0}, {2, 3});

TEST(ShardedArray, HasNothingAtFirst) {
  const ShardedArray array;

  EXPECT_EQ(array.shape(), Shape{0});
  EXPECT_TRUE(array.shards().empty());
}

TEST(ShardedArray, KeepsItsShards) {
  const ShardedArray array({4, 3}, DType::float32, {{kLower, Array::zeros({2, 3}, DType::float32), 1}});

  ASSERT_EQ(array.shards().size(), 1u);
  EXPECT_EQ(array.shards()[0].box, kLower);
  EXPECT_EQ(array.shards()[0].replica, 1u);
  EXPECT_EQ(array.layout(), nullptr);
}

TEST(ShardedArray, HandsItsShardsOverWhenItIsATemporary) {
  const auto make = [] {
    return ShardedArray({4, 3}, DType::float32, {{kLower, Array::zeros({2, 3}, DType::float32)}});
  };

  std::size_t count = 0;
  for (const Shard& shard : make().shards()) {
    EXPECT_EQ(shard.box, kLower);
    ++count;
  }
  EXPECT_EQ(count, 1u);
}

TEST(ShardedArray, RefusesBoxesThatReachBeyondIt) {
  EXPECT_THAT(
      [] {
        ShardedArray({3, 3}, DType::float32, {{kLower, Array::zeros({2, 3}, DType::float32)}});
      },
      Fails(Errc::invalid_argument, AllOf(HasSubstr("[2:4, 0:3]"), HasSubstr("[3, 3]"))));
}

TEST(ShardedArray, RefusesDataOfAnotherShape) {
  EXPECT_THAT(
      [] {
        ShardedArray({4, 3}, DType::float32, {{kLower, Array::zeros({3, 2}, DType::float32)}});
      },
      Fails(Errc::shape_mismatch, AllOf(HasSubstr("[2:4, 0:3]"), HasSubstr("[3, 2]"))));
}

TEST(ShardedArray, RefusesDataOfAnotherDtype) {
  EXPECT_THAT(
      [] {
        ShardedArray({4, 3}, DType::float32, {{kLower, Array::zeros({2, 3}, DType::float64)}});
      },
      Fails(Errc::dtype_mismatch, AllOf(HasSubstr("[2:4, 0:3]"), HasSubstr("F64"))));
}

TEST(ShardedArray, IsEqualWhenItsBitsAre) {
  const Array zeros = Array::zeros({2, 3}, DType::float32);
  Array ones = Array::zeros({2, 3}, DType::float32);
  ones.data<float>()[5] = 1;
  const ShardedArray array({4, 3}, DType::float32, {{kLower, zeros}});

  EXPECT_EQ(array, ShardedArray({4, 3}, DType::float32, {{kLower, zeros.clone()}}));
  EXPECT_FALSE(array == ShardedArray({4, 3}, DType::float32, {{kLower, ones}}));
  EXPECT_FALSE(array == ShardedArray({4, 3}, DType::float32, {{kUpper, zeros}}));
  EXPECT_FALSE(array == ShardedArray({4, 3}, DType::float32, {{kLower, zeros, 1}}));
}

TEST(AbstractShardedArray, DescribesAnArrayWithoutItsMemory) {
  const AbstractShardedArray wanted(
      ShardedArray({4, 3}, DType::float32, {{kLower, Array::zeros({2, 3}, DType::float32), 2}}));

  AbstractShardedArray same({4, 3}, DType::float32);
  same.want(kLower, 2);
  EXPECT_EQ(wanted, same);
  EXPECT_FALSE(wanted.shards[0].destination.has_value());
}

TEST(AbstractShardedArray, RefusesBoxesThatReachBeyondIt) {
  AbstractShardedArray wanted({3, 3}, DType::float32);

  EXPECT_THAT([&] { wanted.want(kLower); },
              Fails(Errc::invalid_argument, HasSubstr("box [2:4, 0:3] is not within")));
}

TEST(AbstractShardedArray, TakesTheDtypeOfItsMemory) {
  std::vector<double> elements(6);
  AbstractShardedArray wanted({4, 3}, DType::float32);

  wanted.place_into(kLower, MutableArrayView(elements.data(), {2, 3}, DType::float64));

  EXPECT_EQ(wanted.dtype, DType::float64);
}

TEST(AbstractShardedArray, RefusesMemoryThatDoesNotFit) {
  AbstractShardedArray wanted({4, 3}, DType::float32);
  wanted.place_into(kUpper, Array({2, 3}, DType::float32));
  const Array read_only = Array::borrow(wanted.shards[0].destination->view());

  EXPECT_THAT(
      [&] {
        wanted.place_into(kLower, Array({3, 2}, DType::float32));
      },
      Fails(Errc::shape_mismatch, HasSubstr("[2:4, 0:3]")));
  EXPECT_THAT(
      [&] {
        wanted.place_into(kLower, Array({2, 3}, DType::int32));
      },
      Fails(Errc::dtype_mismatch, AllOf(HasSubstr("[2:4, 0:3]"), HasSubstr("[0:2, 0:3]"))));
  EXPECT_THAT([&] { wanted.place_into(kLower, read_only); },
              Fails(Errc::invalid_argument, HasSubstr("read-only")));
  EXPECT_EQ(wanted.shards.size(), 1u);
}

}  // namespace
}  // namespace cairn
