// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/sharded_tensor.hpp"

#include <gmock/gmock.h>

#include "memory_checkpoint.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using testing::Fails;
using testing::flat;
using ::testing::HasSubstr;
using testing::numbers;

ShardedTensor in_a_grid() {
  return ShardedTensor::from_rank_offsets("keyA", counted({1, 3, 7, 9}), {{0, 0, 10}, {2, 3, 6}});
}

/// Elements 4 to 8 of a local tensor [4, 7].
ShardedTensor flat_one() {
  return ShardedTensor::from_rank_offsets_flat("flat", numbers({4, 5, 6, 7, 8}), {4, 7},
                                               {{0, 1, 2}, {1, 3, 5}}, {4, 9});
}

TEST(ReplicaId, IsMainWhenAllNumbersAreZero) {
  EXPECT_TRUE(ReplicaId().is_main());
  EXPECT_TRUE(ReplicaId(0).is_main());
  EXPECT_TRUE((ReplicaId{0}.is_main()));
  EXPECT_TRUE((ReplicaId{0, 0}.is_main()));
  EXPECT_FALSE(ReplicaId(1).is_main());
  EXPECT_FALSE(ReplicaId(2).is_main());
  EXPECT_FALSE((ReplicaId{1, 0}.is_main()));
  EXPECT_FALSE((ReplicaId{1, 1, 1}.is_main()));
}

TEST(ShardedTensorFromRankOffsets, PlacesTheLocalTensorInTheGrid) {
  const ShardedTensor tensor = in_a_grid();

  EXPECT_EQ(tensor.local_shape, (Shape{1, 3, 7, 9}));
  EXPECT_EQ(tensor.global_shape, (Shape{10, 3, 42, 9}));
  EXPECT_EQ(tensor.global_offset, (Shape{0, 0, 21, 0}));
  EXPECT_EQ(tensor.axis_fragmentations, (Shape{10, 1, 6, 1}));
  EXPECT_EQ(tensor.box(), Box({0, 0, 21, 0}, {1, 3, 7, 9}));
  EXPECT_EQ(tensor.local_chunk_offset_in_global(), (Shape{0, 0, 3, 0}));
  EXPECT_EQ(tensor.max_allowed_chunks(), (Shape{1, 3, 7, 9}));
  EXPECT_TRUE(tensor.has_regular_grid());
}

TEST(ShardedTensorFromRankOffsets, CountsPrependedAxesFirst) {
  const ShardedTensor tensor = ShardedTensor::from_rank_offsets(
      "layers.w", counted({5, 10}), {{0, 3, 4}, {2, 1, 8}}, {ReplicaId(), 1, false});

  EXPECT_EQ(tensor.global_shape, (Shape{4, 5, 80}));
  EXPECT_EQ(tensor.global_offset, (Shape{3, 0, 10}));
  EXPECT_EQ(tensor.box(), Box({3, 0, 10}, {1, 5, 10}));
  EXPECT_EQ(tensor.local_chunk_offset_in_global(), (Shape{3, 0, 1}));
}

TEST(ShardedTensorFromRankOffsets, RefusesOffsetsThatNameNoPart) {
  const auto with = [](std::vector<RankOffset> offsets) {
    return [offsets] { return ShardedTensor::from_rank_offsets("decoder.w", counted({2, 4}), offsets); };
  };

  EXPECT_THAT(
      with({{1, 0, 2}, {1, 1, 2}}),
      Fails(Errc::invalid_argument, HasSubstr("'decoder.w': axis 1 is given twice in its rank offsets")));
  EXPECT_THAT(with({{0, 4, 4}}),
              Fails(Errc::invalid_argument,
                    HasSubstr("'decoder.w': rank offset 4 of axis 0 is not below its 4 parts")));
  EXPECT_THAT(with({{0, 0, 0}}), Fails(Errc::invalid_argument, HasSubstr("is not below its 0 parts")));
  EXPECT_THAT(with({{2, 0, 1}}),
              Fails(Errc::invalid_argument, HasSubstr("'decoder.w': rank offsets name axis 2 of 2")));
  EXPECT_THAT(with({{0, 0, UINT64_MAX}}),
              Fails(Errc::invalid_argument, HasSubstr("axis 0 does not fit in 64 bits")));
}

TEST(ShardedTensorFromRankOffsetsFlat, HasTheElementsOfTheRange) {
  const ShardedTensor tensor = ShardedTensor::from_rank_offsets_flat(
      "flat", numbers({4, 5, 6, 7, 8}), {1, 4, 7}, {{1, 0, 2}, {2, 3, 5}}, {4, 9});

  EXPECT_EQ(tensor.global_shape, (Shape{1, 8, 35}));
  EXPECT_EQ(tensor.global_offset, (Shape{0, 0, 21}));
  EXPECT_EQ(tensor.axis_fragmentations, (Shape{1, 2, 5}));
  EXPECT_EQ(*tensor.data, numbers({4, 5, 6, 7, 8}));
}

TEST(ShardedTensorFromRankOffsetsFlat, RefusesDataThatAreNotTheRange) {
  const auto with = [](Array data, FlatRange range) {
    return [=] { return ShardedTensor::from_rank_offsets_flat("exp_avg.w", data, {4, 7}, {}, range); };
  };

  EXPECT_THAT(with(counted({6}), {4, 9}),
              Fails(Errc::shape_mismatch,
                    HasSubstr("'exp_avg.w': flattened range [4, 9) of 28 elements has 5, its data has 6")));
  EXPECT_THAT(with(counted({5, 1}), {4, 9}),
              Fails(Errc::shape_mismatch,
                    HasSubstr("data of a flattened tensor has one axis, not the shape [5, 1]")));
  EXPECT_THAT(with(counted({5}), {24, 29}),
              Fails(Errc::invalid_argument, HasSubstr("has no elements [24, 29)")));
  EXPECT_THAT(with(counted({5}), {9, 4}), Fails(Errc::invalid_argument, HasSubstr("has no elements [9, 4)")));
}

TEST(ShardedTensorValidate, RefusesFieldsThatDoNotFit) {
  const auto changed = [](auto change) {
    ShardedTensor tensor = in_a_grid();
    change(tensor);
    return [tensor] { tensor.validate(); };
  };

  EXPECT_THAT(changed([](auto& t) { t.dtype = DType::float32; }),
              Fails(Errc::dtype_mismatch, HasSubstr("'keyA': its data are I32, not F32")));
  EXPECT_THAT(changed([](auto& t) {
                t.local_shape = {1, 2, 7, 9};
              }),
              Fails(Errc::shape_mismatch, HasSubstr("'keyA'")));
  EXPECT_THAT(changed([](auto& t) {
                t.global_offset = {0, 1, 0};
              }),
              Fails(Errc::shape_mismatch, HasSubstr("'keyA'")));
  EXPECT_THAT(changed([](auto& t) { t.prepend_axis_num = 1; }),
              Fails(Errc::shape_mismatch, HasSubstr("prepended")));
  EXPECT_THAT(changed([](auto& t) {
                t.axis_fragmentations = Shape{1, 2};
              }),
              Fails(Errc::shape_mismatch, HasSubstr("axis fragmentations [1, 2]")));
  EXPECT_THAT(
      changed([](auto& t) {
        t.global_offset = {0, 0, 22, 0};
      }),
      Fails(
          Errc::invalid_argument,
          HasSubstr("'keyA': offset 22 of axis 2 is not divisible by the local extent 7 (axis_fragmentations "
                    "says a regular grid)")));
  EXPECT_THAT(changed([](auto& t) {
                t.global_offset = {0, 0, 42, 0};
              }),
              Fails(Errc::invalid_argument, HasSubstr("leave its global shape [10, 3, 42, 9]")));
  EXPECT_THAT(changed([](auto& t) {
                t.global_offset = {UINT64_MAX, 0, 0, 0};
              }),
              Fails(Errc::invalid_argument));
}

TEST(ShardedTensorValidate, TakesAnyOffsetWithoutAGrid) {
  ShardedTensor tensor = in_a_grid();
  tensor.axis_fragmentations.reset();
  tensor.global_offset = {0, 0, 22, 0};

  EXPECT_NO_THROW(tensor.validate());
  EXPECT_THAT([&] { return tensor.max_allowed_chunks(); },
              Fails(Errc::invalid_argument, HasSubstr("regular grid")));
  EXPECT_THAT([&] { return tensor.local_chunk_offset_in_global(); }, Fails(Errc::invalid_argument));
}

TEST(ShardedTensorValidate, TakesEmptyParts) {
  const ShardedTensor tensor{"bias", counted({0}), DType::int32, {0}, {8}, {3}, Shape{4}};

  EXPECT_NO_THROW(tensor.validate());
  EXPECT_THAT(shards_of(tensor, 0), ::testing::IsEmpty());
  EXPECT_EQ(tensor.local_chunk_offset_in_global(), (Shape{0}));
}

TEST(ShardedTensorMaxAllowedChunks, RefusesAnAxisThatIsNotDivisibleUnlessShapesMayDiffer) {
  ShardedTensor tensor = in_a_grid();
  tensor.global_shape = {10, 3, 43, 9};

  EXPECT_THAT([&] { return tensor.max_allowed_chunks(); },
              Fails(Errc::shape_mismatch, HasSubstr("extent 43 of axis 2 is not divisible by its 6 parts")));
  tensor.allow_shape_mismatch = true;
  EXPECT_EQ(tensor.max_allowed_chunks(), (Shape{1, 3, 7, 9}));
}

TEST(ShardedTensorNarrow, KeepsThePartOnAllRanks) {
  const auto first = in_a_grid().narrow(1, 1, 2);
  const auto second = in_a_grid().narrow(2, 3, 2);

  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].local_shape, (Shape{1, 2, 7, 9}));
  EXPECT_EQ(first[0].global_shape, (Shape{10, 2, 42, 9}));
  EXPECT_EQ(first[0].global_offset, (Shape{0, 0, 21, 0}));
  EXPECT_EQ(*first[0].data, in_a_grid().data->part(Box({0, 1, 0, 0}, {1, 2, 7, 9})));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].local_shape, (Shape{1, 3, 2, 9}));
  EXPECT_EQ(second[0].global_shape, (Shape{10, 3, 12, 9}));
  EXPECT_EQ(second[0].global_offset, (Shape{0, 0, 6, 0}));
  EXPECT_NO_THROW(second[0].validate());
}

TEST(ShardedTensorNarrow, RebasesAFlatRange) {
  const auto first_row = flat_one().narrow(0, 0, 1);
  const auto three_rows = flat_one().narrow(0, 0, 3);
  const ShardedTensor example =
      ShardedTensor::from_rank_offsets_flat("f", numbers({5, 6, 7, 8, 9}), {3, 4}, {}, {5, 10});

  ASSERT_EQ(first_row.size(), 1U);
  EXPECT_EQ(*first_row[0].data, numbers({4, 5, 6}));
  EXPECT_EQ(first_row[0].local_shape, (Shape{1, 7}));
  EXPECT_EQ(first_row[0].global_shape, (Shape{2, 35}));
  EXPECT_EQ(first_row[0].global_offset, (Shape{1, 21}));
  ASSERT_EQ(three_rows.size(), 1U);
  EXPECT_EQ(*three_rows[0].data, numbers({4, 5, 6, 7, 8}));
  EXPECT_EQ(three_rows[0].local_shape, (Shape{3, 7}));
  EXPECT_EQ(three_rows[0].global_shape, (Shape{6, 35}));
  EXPECT_EQ(three_rows[0].global_offset, (Shape{3, 21}));
  EXPECT_THAT(flat_one().narrow(0, 2, 1), ::testing::IsEmpty());
  EXPECT_EQ(example.narrow(0, 1, 1).at(0).flattened_range, (FlatRange{1, 4}));
  EXPECT_EQ(*example.narrow(0, 1, 1).at(0).data, numbers({5, 6, 7}));
}

TEST(ShardedTensorNarrow, RefusesWhatRanksCannotDoAlike) {
  EXPECT_THAT([] { return in_a_grid().narrow(4, 0, 1); }, Fails(Errc::invalid_argument));
  EXPECT_THAT([] { return in_a_grid().narrow(1, 2, 2); },
              Fails(Errc::invalid_argument, HasSubstr("[2, 2 + 2)")));
  EXPECT_THAT([] { return flat_one().narrow(1, 0, 1); },
              Fails(Errc::invalid_argument, HasSubstr("narrowed along axis 0, not 1")));
  ShardedTensor uneven{"u", counted({3}), DType::int32, {3}, {8}, {1}};
  EXPECT_THAT([&] { return uneven.narrow(0, 0, 2); },
              Fails(Errc::invalid_argument, HasSubstr("from 3 to 2")));
}

TEST(ShardedTensorInitData, MakesMemoryOfTheRangeOnly) {
  ShardedTensor whole = in_a_grid().without_data();
  ShardedTensor flattened = flat_one().without_data();
  ShardedTensor held = in_a_grid();
  const void* before = held.data->view().data();

  whole.init_data();
  flattened.init_data();
  held.init_data();

  EXPECT_EQ(whole.data->shape(), (Shape{1, 3, 7, 9}));
  EXPECT_EQ(flattened.data->shape(), (Shape{5}));
  EXPECT_EQ(held.data->view().data(), before);
}

TEST(ShardsOf, AreTheBoxesOfAFlatRangeInTheMemoryOfItsData) {
  const ShardedTensor tensor = flat_one();

  const std::vector<Shard> shards = shards_of(tensor, 3);

  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shards[0].box, Box({4, 25}, {1, 3}));
  EXPECT_EQ(flat(shards[0].data), numbers({4, 5, 6}));
  EXPECT_EQ(shards[0].data.view().data(), tensor.data->view().data());
  EXPECT_EQ(shards[1].box, Box({5, 21}, {1, 2}));
  EXPECT_EQ(flat(shards[1].data), numbers({7, 8}));
  EXPECT_EQ(shards[1].replica, 3U);
}

TEST(ShardsOf, TakeStridedData) {
  const Array whole = counted({4, 6});
  const Array column = whole.part(Box({0, 2}, {4, 3}));
  const Array every_second =
      Array::share(ArrayView(whole.view().data(), {12}, DType::int32, Strides{8}), whole.owner());

  const auto part =
      shards_of(ShardedTensor::from_rank_offsets("w", column, {{0, 1, 2}}, {ReplicaId(), 1, false}), 0);
  const auto pieces =
      shards_of(ShardedTensor::from_rank_offsets_flat("f", every_second, {4, 4}, {}, {2, 14}), 0);

  ASSERT_EQ(part.size(), 1U);
  EXPECT_EQ(part[0].data.shape(), (Shape{1, 4, 3}));
  EXPECT_EQ(part[0].data, column.clone().reshaped({1, 4, 3}));
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[1].box, Box({1, 0}, {2, 4}));
  EXPECT_EQ(pieces[1].data, Array(numbers({4, 6, 8, 10, 12, 14, 16, 18})).reshaped({2, 4}));
}

TEST(ShardsOf, RefuseATensorWithoutData) {
  EXPECT_THAT([] { return shards_of(in_a_grid().without_data(), 0); },
              Fails(Errc::invalid_argument, HasSubstr("'keyA': it has no data")));
}

}  // namespace
}  // namespace cairn::megatron
