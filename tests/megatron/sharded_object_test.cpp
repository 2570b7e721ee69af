// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/sharded_object.hpp"

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

TEST(ShardedObjectUniqueKey, HasOffsetAndShape) {
  EXPECT_EQ((ShardedObject{"ObjB", Tree(1), {1, 8}, {0, 3}}.unique_key()), "ObjB/shard_0.3_1.8");
  EXPECT_EQ((ShardedObject{"ObjA"}.unique_key()), "ObjA/shard_0_1");
  EXPECT_EQ((ShardedObject{"scalar", Tree(), {}, {}}.unique_key()), "scalar/shard__");
}

TEST(ShardedObjectEmptyFromUniqueKey, IsTheReverse) {
  for (const ShardedObject& object :
       {ShardedObject{"ObjB", Tree(), {1, 8}, {0, 3}}, ShardedObject{"a/b/shard_1_2", Tree(), {4}, {2}},
        ShardedObject{"scalar", Tree(), {}, {}}, ShardedObject{"", Tree(), {1}, {0}}}) {
    const ShardedObject read = ShardedObject::empty_from_unique_key(object.unique_key(), {1, 0});

    EXPECT_EQ(read.key, object.key);
    EXPECT_EQ(read.global_shape, object.global_shape);
    EXPECT_EQ(read.global_offset, object.global_offset);
    EXPECT_EQ(read.replica_id, (ReplicaId{1, 0}));
    EXPECT_FALSE(read.data);
  }
}

TEST(ShardedObjectEmptyFromUniqueKey, RefusesOtherNames) {
  for (const char* name : {"", "ObjA", "ObjA/", "ObjA/shard_0", "ObjA/shard_0_", "ObjA/shard__1",
                           "ObjA/shard_0_1_", "ObjA/shard_0_1x", "ObjA/shard_0._1.1", "ObjA/shards_0_1",
                           "ObjA/shard_-1_2", "ObjA/shard_0.0_1", "ObjA/shard_99999999999999999999_1"}) {
    EXPECT_THAT([&] { return ShardedObject::empty_from_unique_key(name); }, Fails(Errc::invalid_argument))
        << name;
  }
}

TEST(ShardedObjectValidate, RefusesAnOffsetOutsideOfTheGrid) {
  const auto with = [](Shape shape, Shape offset) {
    return [=] { ShardedObject{"rng_state", Tree(), shape, offset}.validate(); };
  };

  EXPECT_THAT(
      with({2, 2}, {2, 0}),
      Fails(Errc::invalid_argument, HasSubstr("'rng_state': a grid of [2, 2] objects has none at [2, 0]")));
  EXPECT_THAT(with({2, 2}, {0}), Fails(Errc::invalid_argument));
  EXPECT_NO_THROW(with({2, 2}, {1, 1})());
}

}  // namespace
}  // namespace cairn::megatron
