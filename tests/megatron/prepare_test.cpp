// SPDX-License-Identifier: Apache-2.0
#include "megatron/prepare.hpp"

#include <gmock/gmock.h>

#include "memory_checkpoint.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using detail::prepare;
using detail::PreparedDict;
using detail::Purpose;
using testing::counted;
using testing::Fails;
using testing::flat;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryCheckpoint;
using testing::numbers;

ShardedTensor row(std::string key, std::uint64_t offset, Array data, ReplicaId replica = {}) {
  return ShardedTensor::from_rank_offsets(std::move(key), std::move(data), {{0, offset, 4}},
                                          {replica, 0, false});
}

/// Elements of a tensor [2, 6], flattened.
ShardedTensor range(std::string key, FlatRange elements, ReplicaId replica = {}) {
  return ShardedTensor::from_rank_offsets_flat(std::move(key), counted({elements.size()}), {2, 6}, {},
                                               elements, {replica, 0, false});
}

TEST(PrepareSave, GathersTensorsByKeyWhateverTheirPaths) {
  const PreparedDict prepared =
      prepare({{"z", row("w", 1, counted({2, 3}))},
               {"list", StateDict::list({row("v", 0, counted({1})), row("w", 3, counted({2, 3}))})}},
              Purpose::save);

  ASSERT_EQ(prepared.tensors.size(), 2U);
  EXPECT_EQ(prepared.tensors[0].key, "v");
  EXPECT_EQ(prepared.tensors[1].key, "w");
  const ShardedArray array = held(prepared.tensors[1], 5);
  EXPECT_EQ(array.shape(), (Shape{8, 3}));
  ASSERT_EQ(array.shards().size(), 2U);
  EXPECT_EQ(array.shards()[0].box, Box({2, 0}, {2, 3}));
  EXPECT_EQ(array.shards()[1].box, Box({6, 0}, {2, 3}));
}

TEST(PrepareSave, GivesCopiesANumberOfTheRank) {
  const PreparedDict prepared = prepare(
      {{"a", row("w", 1, counted({2}), {0, 0})}, {"b", row("w", 2, counted({2}), {0, 1})}}, Purpose::save);

  const ShardedArray array = held(prepared.tensors[0], 5);

  EXPECT_EQ(array.shards()[0].replica, 0U);
  EXPECT_EQ(array.shards()[1].replica, 6U);
}

TEST(PrepareSave, BringsABoxOnceAsMainReplicaWhereOneIs) {
  const PreparedDict prepared = prepare({{"a", row("w", 1, numbers({1, 1}), 3)},
                                         {"b", row("w", 1, numbers({2, 2}), 0)},
                                         {"c", row("w", 1, numbers({3, 3}), 1)}},
                                        Purpose::save);

  const ShardedArray array = held(prepared.tensors[0], 5);

  ASSERT_EQ(array.shards().size(), 1U);
  EXPECT_EQ(array.shards()[0].replica, 0U);
  EXPECT_EQ(array.shards()[0].data, numbers({2, 2}));
}

TEST(PrepareSave, KeepsCopiesThatAreCutOtherwise) {
  const PreparedDict prepared =
      prepare({{"a", range("w", {0, 12})}, {"b", range("w", {3, 9}, 1)}}, Purpose::save);

  EXPECT_EQ(prepared.tensors[0].boxes.size(), 3U);
}

TEST(PrepareSave, LeavesOutEmptyRangesAndKeepsTensorsOfNoElements) {
  ShardedTensor empty{"bias", counted({0}), DType::int32, {0}, {8}, {8}};

  const PreparedDict prepared = prepare({{"a", range("w", {4, 4})}, {"b", empty}}, Purpose::save);

  ASSERT_EQ(prepared.tensors.size(), 1U);
  EXPECT_EQ(prepared.tensors[0].key, "bias");
  EXPECT_THAT(prepared.tensors[0].boxes, IsEmpty());
}

TEST(PrepareSave, MakesOneTreeOfThePlainValues) {
  const PreparedDict prepared =
      prepare({{"step", 3},
               {"model", {{"w", row("w", 0, counted({2}))}}},
               {"mixed", StateDict::list({row("v", 0, counted({2})), 5, StateDict{{"a", 1}}})},
               {"groups", StateDict::list({{{"lr", 0.5}, {"params", LocalNonpersistentObject{Tree(1)}}}})},
               {"empty", Tree::map()},
               {"none", Tree::list()}},
              Purpose::save);

  EXPECT_EQ(prepared.common, (Tree{{"step", 3},
                                   {"mixed", Tree::list({Tree(5), Tree{{"a", 1}}})},
                                   {"groups", Tree::list({Tree{{"lr", 0.5}}})},
                                   {"empty", Tree::map()},
                                   {"none", Tree::list()}}));
}

TEST(PrepareSave, TakesNothingPlainOfAFactoryThatBuildsNothing) {
  const ShardedTensorFactory nothing{
      "f", counted({2}),
      [](const auto&, const Array&, const auto&, const auto&) { return StateDict::list(); }};

  EXPECT_EQ(prepare({{"f", nothing}}, Purpose::save).common, Tree::map());
}

TEST(PrepareSave, ChangesNothingOfTheDict) {
  const ShardedTensorFactory factory = swiglu_factory("fc1", counted({4}), 0, {});
  const StateDict dict = {{"f", factory}, {"local", LocalNonpersistentObject{Tree(1)}}};

  static_cast<void>(prepare(dict, Purpose::save));

  EXPECT_TRUE(dict.at("f").leaf_if<ShardedTensorFactory>());
}

TEST(PrepareSave, GathersObjectsByUniqueKey) {
  const PreparedDict prepared = prepare({{"a", ShardedObject{"rng", Tree(1), {2}, {1}, 1}},
                                         {"b", ShardedObject{"rng", Tree(2), {2}, {1}, 0}},
                                         {"c", ShardedObject{"rng", Tree(3), {2}, {0}, 4}}},
                                        Purpose::save);

  ASSERT_EQ(prepared.objects.size(), 2U);
  EXPECT_EQ(prepared.objects[0].unique_key, "rng/shard_0_2");
  EXPECT_FALSE(prepared.objects[0].is_main);
  EXPECT_EQ(prepared.objects[1].data, Tree(2));
  EXPECT_TRUE(prepared.objects[1].is_main);
}

TEST(PrepareSave, RefusesAKeyThatSaysTwoThings) {
  const auto with = [](StateDict dict) {
    return [dict] { static_cast<void>(prepare(dict, Purpose::save)); };
  };

  EXPECT_THAT(
      with({{"a", row("w", 0, counted({2, 3}))}, {"b", row("w", 0, counted({2, 4}))}}),
      Fails(Errc::invalid_argument, HasSubstr("'w': shape [8, 3] of I32 at 'a', [8, 4] of I32 at 'b'")));
  EXPECT_THAT(with({{"a", row("w", 0, counted({2}))}, {"b", row("w", 0, Array(Shape{2}, DType::float32))}}),
              Fails(Errc::invalid_argument, HasSubstr("[8] of F32 at 'b'")));
  EXPECT_THAT(
      with({{"model", {{"w", row("w", 0, counted({2}))}}}, {"extra", {{"w", ShardedObject{"w", Tree(1)}}}}}),
      Fails(Errc::invalid_argument, HasSubstr("'w' is a tensor at 'model/w' and an object at 'extra/w'")));
  EXPECT_THAT(with({{"a", row("x/shard_0_1", 0, counted({2}))}}),
              Fails(Errc::invalid_argument, HasSubstr("'x/shard_0_1' at 'a': a tensor's key cannot end")));
  EXPECT_THAT(
      with({{"a", ShardedObject{"o", Tree(1), {2}, {0}}}, {"b", ShardedObject{"o", Tree(1), {1}, {0}}}}),
      Fails(Errc::invalid_argument, HasSubstr("'o': a grid of [2] objects at 'a', of [1] at 'b'")));
}

TEST(PrepareSave, RefusesWhatHasNoData) {
  const auto with = [](StateDict dict) {
    return [dict] { static_cast<void>(prepare(dict, Purpose::save)); };
  };

  EXPECT_THAT(with({{"a", row("w", 0, counted({2})).without_data()}}),
              Fails(Errc::invalid_argument, HasSubstr("'w' at 'a': a tensor without data cannot be saved")));
  EXPECT_THAT(with({{"a", ShardedObject{"o"}}}),
              Fails(Errc::invalid_argument, HasSubstr("'o' at 'a': an object without data cannot be saved")));
  EXPECT_THAT(with({{"a", ShardedArray()}}),
              Fails(Errc::invalid_argument, HasSubstr("'a': a sharded array")));
  EXPECT_THAT(with(1),
              Fails(Errc::invalid_argument, HasSubstr("a state dict is a map, not a value of kind integer")));
}

TEST(PrepareLoad, MakesMemoryWhereThereIsNone) {
  const PreparedDict prepared = prepare({{"a", row("w", 1, counted({2, 3})).without_data()},
                                         {"b", range("v", {3, 8}).without_data()},
                                         {"o", ShardedObject{"o"}}},
                                        Purpose::load);

  const AbstractShardedArray tensor = wanted(prepared.tensors[1]);
  const AbstractShardedArray flattened = wanted(prepared.tensors[0]);

  ASSERT_EQ(tensor.shards.size(), 1U);
  EXPECT_EQ(tensor.shards[0].destination->shape(), (Shape{2, 3}));
  EXPECT_EQ(flattened.shards.size(), 2U);
  EXPECT_EQ(prepared.expanded.at("b").leaf_if<ShardedTensor>()->data->shape(), (Shape{5}));
}

TEST(PrepareLoad, AsksForEqualBoxesOnceForEachMemory) {
  const Array shared = counted({2});
  const PreparedDict prepared = prepare({{"a", row("w", 1, shared)},
                                         {"b", row("w", 1, shared)},
                                         {"c", row("w", 1, counted({2}), 1)},
                                         {"d", row("w", 2, counted({2}))}},
                                        Purpose::load);

  const AbstractShardedArray tensor = wanted(prepared.tensors[0]);

  ASSERT_EQ(tensor.shards.size(), 3U);
  EXPECT_EQ(tensor.shards[0].replica, 0U);
  EXPECT_EQ(tensor.shards[1].replica, 1U);
  EXPECT_EQ(tensor.shards[2].replica, 0U);
}

TEST(PrepareLoad, RefusesBoxesThatOverlapOtherwise) {
  EXPECT_THAT(
      [] {
        static_cast<void>(prepare({{"a", range("w", {0, 6})}, {"b", range("w", {3, 6}, 1)}}, Purpose::load));
      },
      Fails(Errc::invalid_argument,
            HasSubstr("'w': boxes [0:1, 0:6] at 'a' and [0:1, 3:6] at 'b' overlap and are not equal")));
}

TEST(PrepareLoad, RefusesMemoryThatCannotBeWritten) {
  const std::vector<std::int32_t> fixed = {1, 2};

  EXPECT_THAT(
      [&] {
        static_cast<void>(prepare({{"a", row("w", 0, Array(fixed))}}, Purpose::load));
      },
      Fails(Errc::invalid_argument, HasSubstr("'w' at 'a': its data are read-only")));
  EXPECT_NO_THROW(static_cast<void>(prepare({{"a", row("w", 0, Array(fixed))}}, Purpose::save)));
}

TEST(PrepareLoad, PadsAndCropsWhereShapesMayDiffer) {
  ShardedTensor flexible = row("w", 0, counted({2}));
  flexible.allow_shape_mismatch = true;

  const PreparedDict prepared = prepare({{"a", flexible}, {"b", row("v", 0, counted({2}))}}, Purpose::load);

  EXPECT_EQ(wanted(prepared.tensors[0]).on_mismatch, ShapeMismatch::refuse);
  EXPECT_EQ(wanted(prepared.tensors[1]).on_mismatch, ShapeMismatch::pad_and_crop);
}

TEST(Assemble, PutsWhatWasLoadedIntoThePlainValues) {
  const StateDict saved = {
      {"model", {{"w", row("w", 0, counted({2}))}}},
      {"opt",
       {{"groups", StateDict::list({{{"lr", 1}, {"params", LocalNonpersistentObject{Tree(1)}}},
                                    {{"lr", 2}, {"params", LocalNonpersistentObject{Tree(2)}}}})}}},
      {"rng", ShardedObject{"rng", Tree{{"seed", 7}}}}};
  std::vector<StateDict> ranks(4);
  ranks[0] = saved;
  for (std::uint64_t rank = 1; rank < 4; ++rank) {
    ranks[rank]["w"] = row("w", rank, counted({2}, static_cast<std::int32_t>(10 * rank)));
  }

  const Tree loaded = MemoryCheckpoint(ranks).load(
      {{"anywhere", row("w", 2, counted({2}))},
       {"opt",
        {{"groups", StateDict::list({{{"params", LocalNonpersistentObject{Tree(8)}}},
                                     {{"params", LocalNonpersistentObject{Tree(9)}}}})}}},
       {"state", ShardedObject{"rng"}},
       {"ignored", 5}});

  EXPECT_EQ(
      loaded,
      (Tree{
          {"anywhere", numbers({20, 21})},
          {"opt", {{"groups", Tree::list({Tree{{"lr", 1}, {"params", 8}}, Tree{{"lr", 2}, {"params", 9}}})}}},
          {"state", {{"seed", 7}}}}));
}

TEST(Assemble, PutsListsTogetherByThePositionsOfTheRequest) {
  const StateDict dict = {
      {"list", StateDict::list({ShardedTensor::from_rank_offsets("w", counted({2})), 5,
                                ShardedTensor::from_rank_offsets("v", counted({1})), StateDict{{"a", 1}}})}};
  const MemoryCheckpoint checkpoint = MemoryCheckpoint::of(dict);

  EXPECT_EQ(checkpoint.common, (Tree{{"list", Tree::list({Tree(5), Tree{{"a", 1}}})}}));
  EXPECT_EQ(checkpoint.load(dict)["list"],
            Tree::list({Tree(numbers({0, 1})), Tree(5), Tree(numbers({0})), Tree{{"a", 1}}}));
}

TEST(Assemble, RefusesPlacesThatPlainValuesHave) {
  const MemoryCheckpoint checkpoint =
      MemoryCheckpoint::of({{"a", 1},
                            {"list", StateDict::list({1, 2, 3})},
                            {"w", ShardedTensor::from_rank_offsets("w", counted({2}))}});
  const ShardedTensor w = ShardedTensor::from_rank_offsets("w", counted({2}));

  EXPECT_THAT(
      [&] {
        static_cast<void>(checkpoint.load({{"a", w}}));
      },
      Fails(Errc::structure_mismatch,
            HasSubstr("'a': the common state of the checkpoint has a value of kind integer there")));
  EXPECT_THAT(
      [&] {
        static_cast<void>(checkpoint.load({{"a", {{"b", w}}}}));
      },
      Fails(Errc::structure_mismatch, HasSubstr("a value of kind integer around it")));
  EXPECT_THAT(
      [&] {
        static_cast<void>(checkpoint.load({{"list", {{"b", w}}}}));
      },
      Fails(Errc::structure_mismatch));
  EXPECT_THAT(
      [&] {
        static_cast<void>(checkpoint.load({{"list", StateDict::list({w, 1})}}));
      },
      Fails(
          Errc::structure_mismatch,
          HasSubstr("'list': the common state of the checkpoint has a list of 3 elements there, the request "
                    "one of 2, 1 of them with plain values")));
}

TEST(Assemble, LeavesOutWhatWasDroppedAndFactoriesThatMissAPart) {
  const MemoryCheckpoint checkpoint =
      MemoryCheckpoint::of({{"list", StateDict::list({ShardedTensor::from_rank_offsets("w", counted({2}))})},
                            {"fc1", ShardedTensor::from_rank_offsets("fc1_w", counted({2}))}});

  const Tree loaded =
      checkpoint.load({{"list", StateDict::list({ShardedTensor::from_rank_offsets("x", counted({2})),
                                                 ShardedTensor::from_rank_offsets("w", counted({2}))})},
                       {"alone", {{"x", ShardedTensor::from_rank_offsets("x", counted({2}))}}},
                       {"object", ShardedObject{"o"}},
                       {"fc1", swiglu_factory("fc1", counted({4}), 0, {}, {}, true)}});

  EXPECT_EQ(loaded, (Tree{{"list", Tree::list({Tree(numbers({0, 1}))})}}));
}

TEST(Assemble, MergesWhatPlainValuesAFactoryHasBuilt) {
  const ShardedTensorFactory factory{
      "f", counted({2}),
      [](const std::string& key, const Array& data, const auto&, const auto&) {
        return StateDict{{"part", ShardedTensor::from_rank_offsets(key, data)}, {"scale", 3}};
      },
      [](Tree parts) {
        const Array product = parts["part"].as<Array>().clone();
        for (std::int32_t& element : product.data<std::int32_t>()) {
          element *= parts["scale"].as<std::int32_t>();
        }
        return product;
      }};

  const MemoryCheckpoint checkpoint = MemoryCheckpoint::of({{"f", factory}});

  EXPECT_EQ(checkpoint.common, (Tree{{"f", {{"scale", 3}}}}));
  EXPECT_EQ(checkpoint.load({{"f", factory}})["f"].as<Array>(), numbers({0, 3}));
}

TEST(Assemble, MergesTheInnermostFirst) {
  const auto plus_one = [](const Array& array) {
    const Array sum = array.clone();
    for (std::int32_t& element : sum.data<std::int32_t>()) {
      element = element * 2 + 1;
    }
    return sum;
  };
  const ShardedTensorFactory inner{"inner", counted({2}),
                                   [](const std::string& key, const Array& data, const auto&, const auto&) {
                                     return StateDict{{"part", ShardedTensor::from_rank_offsets(key, data)}};
                                   },
                                   [plus_one](Tree parts) { return plus_one(parts["part"].as<Array>()); }};
  const ShardedTensorFactory outer{
      "outer", counted({2}),
      [inner](const auto&, const Array&, const auto&, const auto&) { return StateDict::list({inner}); },
      [](Tree parts) {
        const Array negative = parts[0].as<Array>().clone();
        for (std::int32_t& element : negative.data<std::int32_t>()) {
          element = -element;
        }
        return negative;
      }};

  EXPECT_EQ(MemoryCheckpoint::of({{"f", outer}}).load({{"f", outer}})["f"].as<Array>(), numbers({-1, -3}));
}

TEST(Assemble, GivesTheMemoryOfTheRequest) {
  const Array memory = counted({2, 3});
  const MemoryCheckpoint checkpoint =
      MemoryCheckpoint::of({{"w", ShardedTensor::from_rank_offsets("w", counted({2, 3}, 10))}});

  const Tree loaded = checkpoint.load({{"w", ShardedTensor::from_rank_offsets("w", memory)}});

  EXPECT_EQ(loaded["w"].array_if()->view().data(), memory.view().data());
  EXPECT_EQ(flat(memory), counted({6}, 10));
}

}  // namespace
}  // namespace cairn::megatron
