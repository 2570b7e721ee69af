// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/factory.hpp"

#include <vector>

#include <gmock/gmock.h>

#include "cairn/megatron/dict_functions.hpp"
#include "cairn/megatron/state_dict.hpp"

#include "memory_checkpoint.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using testing::cut;
using testing::Fails;
using testing::flat;
using ::testing::HasSubstr;
using testing::MemoryCheckpoint;
using testing::numbers;

Array plus(const Array& array, std::int32_t difference) {
  Array sum = array.clone();
  for (std::int32_t& element : sum.data<std::int32_t>()) {
    element += difference;
  }
  return sum;
}

StateDict built(const ShardedTensorFactory& factory) {
  StateDict dict = {{"f", factory}};
  apply_factories(dict);
  return dict.at("f");
}

const ShardedTensor& tensor_at(const StateDict& dict, std::string_view path) {
  return *dict.at(path).leaf_if<ShardedTensor>();
}

TEST(ShardedTensorFactory, BuildsPartsAndMergesWhatWasLoadedOfThem) {
  const ShardedTensorFactory factory{
      "level1", counted({3}),
      [](const std::string& key, const Array& data, const ReplicaId& replica,
         const std::optional<FlatRange>&) {
        return StateDict{{"level2_a", ShardedTensor::from_rank_offsets(key + "part1", plus(data, 1), {},
                                                                       {replica, 0, false})},
                         {"level2_b", ShardedTensor::from_rank_offsets(key + "part2", plus(data, 2), {},
                                                                       {replica, 0, false})}};
      },
      [](Tree parts) { return parts["level2_b"].as<Array>(); }};

  const StateDict parts = built(factory);
  const Tree loaded = MemoryCheckpoint::of({{"level0", factory}}).load({{"level0", factory}});

  EXPECT_EQ(*tensor_at(parts, "level2_a").data, numbers({1, 2, 3}));
  EXPECT_EQ(*tensor_at(parts, "level2_b").data, numbers({2, 3, 4}));
  EXPECT_EQ(tensor_at(parts, "level2_b").key, "level1part2");
  EXPECT_EQ(loaded["level0"].as<Array>(), numbers({2, 3, 4}));
}

TEST(SwigluFactory, CutsEachHalfAmongTheRanks) {
  const Array local = counted({4, 3});

  const StateDict parts = built(swiglu_factory("fc1", local, 0, {{0, 1, 3}}, {{0, 1}, 0, false}));

  ASSERT_EQ(parts.list_if()->size(), 2U);
  EXPECT_EQ(tensor_at(parts, "0").box(), Box({2, 0}, {2, 3}));
  EXPECT_EQ(tensor_at(parts, "1").box(), Box({8, 0}, {2, 3}));
  EXPECT_EQ(tensor_at(parts, "0").global_shape, (Shape{12, 3}));
  EXPECT_EQ(tensor_at(parts, "1").axis_fragmentations, (Shape{6, 1}));
  EXPECT_EQ(tensor_at(parts, "1").replica_id, (ReplicaId{0, 1}));
  EXPECT_EQ(*tensor_at(parts, "1").data, local.part(Box({2, 0}, {2, 3})));
  EXPECT_EQ(tensor_at(parts, "1").key, "fc1");
}

TEST(SwigluFactory, MakesTwoTensorsWhenAskedTo) {
  const StateDict parts = built(swiglu_factory("fc1", counted({4, 3}), 0, {{0, 1, 3}}, {}, true));

  EXPECT_EQ(tensor_at(parts, "0").key, "fc1_w");
  EXPECT_EQ(tensor_at(parts, "1").key, "fc1_v");
  EXPECT_EQ(tensor_at(parts, "1").box(), Box({2, 0}, {2, 3}));
  EXPECT_EQ(tensor_at(parts, "1").global_shape, (Shape{6, 3}));
}

TEST(SwigluFactory, IntersectsAFlatRangeWithTheHalves) {
  ShardedTensorFactory factory = swiglu_factory("fc1", counted({16, 5}), 0, {{0, 0, 2}});
  factory.flattened_range = FlatRange{8, 64};
  factory.data = counted({56}, 8);

  const StateDict parts = built(factory);

  ASSERT_EQ(parts.list_if()->size(), 2U);
  EXPECT_EQ(tensor_at(parts, "0").flattened_range, (FlatRange{8, 40}));
  EXPECT_EQ(tensor_at(parts, "1").flattened_range, (FlatRange{0, 24}));
  EXPECT_EQ(*tensor_at(parts, "0").data, counted({32}, 8));
  EXPECT_EQ(*tensor_at(parts, "1").data, counted({24}, 40));
  EXPECT_EQ(tensor_at(parts, "1").local_shape, (Shape{8, 5}));
}

TEST(SwigluFactory, LeavesOutAHalfOfWhichARangeHasNothing) {
  ShardedTensorFactory factory = swiglu_factory("fc1", counted({16, 5}), 0, {{0, 0, 2}});
  factory.flattened_range = FlatRange{45, 50};
  factory.data = counted({5}, 45);

  const StateDict parts = built(factory);

  ASSERT_EQ(parts.list_if()->size(), 1U);
  EXPECT_EQ(tensor_at(parts, "0").flattened_range, (FlatRange{5, 10}));
  EXPECT_EQ(tensor_at(parts, "0").box(), Box({16, 0}, {8, 5}));
}

TEST(SwigluFactory, LoadsIntoTheMemoryOfItsData) {
  const Array whole = counted({2, 8, 6});  // Layers, gate and up, input.
  const auto factory_of = [](Array local, std::uint64_t layer, std::uint64_t rank, std::uint64_t ranks) {
    return swiglu_factory("fc1", std::move(local), 1, {{0, layer, 2}, {1, rank, ranks}},
                          {ReplicaId(), 1, false});
  };
  const auto local_of = [&whole](std::uint64_t layer, std::uint64_t rank, std::uint64_t ranks) {
    const std::uint64_t rows = 4 / ranks;
    const std::vector<Array> halves = {cut(whole, Box({layer, rank * rows, 0}, {1, rows, 6})),
                                       cut(whole, Box({layer, 4 + rank * rows, 0}, {1, rows, 6}))};
    return concatenate(halves, 1).reshaped({2 * rows, 6});
  };
  std::vector<StateDict> saved(2);
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    saved[rank]["layers"] = StateDict::list(
        {factory_of(local_of(0, rank, 2), 0, rank, 2), factory_of(local_of(1, rank, 2), 1, rank, 2)});
  }

  const MemoryCheckpoint checkpoint(saved);
  const Array memory = Array::zeros({2, 6}, DType::int32);
  const Tree loaded = checkpoint.load({{"fc1", factory_of(memory, 1, 3, 4)}});

  EXPECT_EQ(checkpoint.tensors.at("fc1"), whole);
  EXPECT_EQ(loaded["fc1"].as<Array>(), local_of(1, 3, 4));
  EXPECT_EQ(loaded["fc1"].array_if()->view().data(), memory.view().data());
}

TEST(SwigluFactory, RefusesAnAxisWithoutHalves) {
  EXPECT_THAT(
      [] {
        return swiglu_factory("fc1", counted({3, 4}), 0, {});
      },
      Fails(Errc::invalid_argument, HasSubstr("'fc1': an array [3, 4] with 0 prepended axes has no halves")));
  EXPECT_THAT(
      [] {
        return swiglu_factory("fc1", counted({4}), 0, {}, {ReplicaId(), 1, false});
      },
      Fails(Errc::invalid_argument));
  EXPECT_THAT([] { return swiglu_factory("fc1", counted({4}), 1, {}); }, Fails(Errc::invalid_argument));
}

TEST(SwigluFactory, RefusesAFlatRangeAlongAnotherAxis) {
  ShardedTensorFactory factory = swiglu_factory("fc1", counted({3, 4}), 1, {});
  factory.flattened_range = FlatRange{0, 2};
  factory.data = counted({2});

  EXPECT_THAT(
      [&] { return built(factory); },
      Fails(Errc::invalid_argument, HasSubstr("'f': its factory: a flattened range is not in halves")));
}

TEST(Concatenate, CopiesNothingThatLiesTogether) {
  const Array whole = counted({4, 6});
  const std::vector<Array> columns = {whole.part(Box({0, 0}, {4, 2})), whole.part(Box({0, 2}, {4, 4}))};
  const std::vector<Array> apart = {columns[0].clone(), columns[1].clone()};

  const Array together = concatenate(columns, 1);
  const Array copied = concatenate(apart, 1);

  EXPECT_EQ(together.view().data(), whole.view().data());
  EXPECT_EQ(together, whole);
  EXPECT_EQ(together.owner(), whole.owner());
  EXPECT_TRUE(together.is_mutable());
  EXPECT_EQ(copied, whole);
}

TEST(Concatenate, CopiesWhatLiesInAnotherOrder) {
  const Array whole = counted({6});
  const std::vector<Array> halves = {whole.part(Box({3}, {3})), whole.part(Box({0}, {3}))};
  const std::vector<Array> with_gap = {whole.part(Box({0}, {2})), whole.part(Box({3}, {1}))};

  EXPECT_EQ(concatenate(halves), numbers({3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(concatenate(with_gap), numbers({0, 1, 3}));
}

TEST(Concatenate, RefusesArraysThatDoNotFit) {
  const std::vector<Array> shapes = {counted({2, 3}), counted({2, 4})};
  const std::vector<Array> dtypes = {counted({2}), Array(Shape{2}, DType::float32)};
  const std::vector<Array> ranks = {counted({2}), counted({2, 1})};

  EXPECT_THAT([&] { return concatenate(shapes, 0); }, Fails(Errc::shape_mismatch, HasSubstr("[2, 4]")));
  EXPECT_THAT([&] { return concatenate(dtypes); }, Fails(Errc::dtype_mismatch));
  EXPECT_THAT([&] { return concatenate(ranks); }, Fails(Errc::shape_mismatch));
  EXPECT_THAT([&] { return concatenate(shapes, 2); }, Fails(Errc::invalid_argument));
  EXPECT_THAT([] { return concatenate({}); }, Fails(Errc::invalid_argument));
}

}  // namespace
}  // namespace cairn::megatron
