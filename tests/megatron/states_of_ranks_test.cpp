// SPDX-License-Identifier: Apache-2.0
#include "megatron/states_of_ranks.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/handlers/array_rules.hpp"

namespace cairn::megatron {
namespace {

using ::testing::AllOf;
using testing::counted;
using testing::cut;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JointJob;
using ::testing::Not;
using testing::numbers;
using ::testing::Pair;
using testing::RankEnd;

class StatesOfRanksTest : public testing::StatesOfRanks {};

/// Rows of a matrix that two ranks have, and an array of each rank's own.
StateDict two_ranks(std::uint32_t rank) {
  const Array mine = counted({2, 3}, static_cast<std::int32_t>(6 * rank));
  return {
      {fmt::format("stage{}", rank), {{"w", ShardedTensor::from_rank_offsets("w", mine, {{0, rank, 2}})}}},
      {"own", ShardedTensor::from_rank_offsets(fmt::format("own/{}", rank), numbers({7, 8}))},
      {"step", 7}};
}

StateDict two_ranks_request(std::uint32_t rank) {
  StateDict dict = two_ranks(rank);
  return map(dict, [](const StateDict& leaf) -> StateDict {
    const auto* tensor = leaf.leaf_if<ShardedTensor>();
    return tensor != nullptr ? StateDict(tensor->without_data()) : leaf;
  });
}

TEST_F(StatesOfRanksTest, AreSavedUnderTheirKeys) {
  expect_saved(two_ranks, 2);

  const std::map<std::string, Array> tensors = load_plain_tensors(target(), *context_);

  EXPECT_THAT(tensors, ElementsAre(Pair("own/0", numbers({7, 8})), Pair("own/1", numbers({7, 8})),
                                   Pair("w", counted({4, 3}))));
  EXPECT_EQ(load_common_state_dict(target(), *context_), (Tree{{"step", 7}}));
}

TEST_F(StatesOfRanksTest, AreLoadedWhereTheRequestHasThem) {
  expect_saved(two_ranks, 2);

  const std::vector<LoadEnd> ends = load_on(two_ranks_request, 2);

  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ends[rank].text, "");
    EXPECT_EQ(
        ends[rank].loaded.state,
        (Tree{{fmt::format("stage{}", rank), {{"w", counted({2, 3}, static_cast<std::int32_t>(6 * rank))}}},
              {"own", numbers({7, 8})},
              {"step", 7}}));
  }
}

TEST_F(StatesOfRanksTest, AreFlatTreesToOthers) {
  expect_saved(two_ranks, 2);

  const Tree tree = cairn::load(target(), {}, *context_);

  EXPECT_EQ(tree, (Tree{{"own/0", numbers({7, 8})}, {"own/1", numbers({7, 8})}, {"w", counted({4, 3})}}));
}

TEST_F(StatesOfRanksTest, AreLoadedByOneProcessAndByItselfOnEachRank) {
  expect_saved(two_ranks, 2);
  const StateDict whole = {{"w", ShardedTensor::from_rank_offsets("w", Array({4, 3}, DType::int32))}};

  EXPECT_EQ(load_alone(whole).state, (Tree{{"step", 7}, {"w", counted({4, 3})}}));
  StateDictLoadOptions options;
  options.is_alone = true;
  for (const LoadEnd& end : load_on([&](std::uint32_t) { return whole; }, 2, options)) {
    EXPECT_EQ(end.text, "");
    EXPECT_EQ(end.loaded.state, (Tree{{"step", 7}, {"w", counted({4, 3})}}));
  }
}

TEST_F(StatesOfRanksTest, FillTheMemoryThatTensorsBringAndConvert) {
  expect_saved(two_ranks, 2);
  Array memory({4, 3}, DType::int64);
  const StateDict wanted = {{"w", ShardedTensor::from_rank_offsets("w", memory)}};
  Array halves({4, 3}, DType::bfloat16);

  static_cast<void>(load_alone(wanted));
  static_cast<void>(load_alone({{"w", ShardedTensor::from_rank_offsets("w", halves)}}));

  EXPECT_EQ(memory.data<std::int64_t>()[11], 11);
  EXPECT_EQ(halves.dtype(), DType::bfloat16);
}

TEST_F(StatesOfRanksTest, SayInTheManifestWhatTheyAre) {
  expect_saved(two_ranks, 2);

  EXPECT_EQ(backend_of(target()), (Backend{"cairn", 1}));
  EXPECT_TRUE(check_is_distributed_checkpoint(target()));
  EXPECT_FALSE(check_is_distributed_checkpoint(target() / "nothing"));
  EXPECT_EQ(checkpointables_metadata(target(), *context_).annotations,
            R"({"cairn.megatron":{"backend":"cairn","version":1}})");
}

TEST_F(StatesOfRanksTest, TellWhatTheyHave) {
  expect_saved(
      [](std::uint32_t rank) {
        StateDict dict = two_ranks(rank);
        dict["state"] = ShardedObject{"state/rng", Tree{{"seed", static_cast<int>(rank)}}, {2}, {rank}};
        return dict;
      },
      2);

  const StateDict tensors = load_tensors_metadata(target(), *context_);
  const StateDict all = load_sharded_metadata(target(), *context_);

  ASSERT_EQ(tensors.map_if()->size(), 3u);
  const auto* w = tensors["w"].leaf_if<ShardedTensor>();
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->global_shape, (Shape{4, 3}));
  EXPECT_EQ(w->local_shape, (Shape{4, 3}));
  EXPECT_FALSE(w->data.has_value());
  ASSERT_EQ(all.map_if()->size(), 5u);
  const auto* object = all["state/rng/shard_1_2"].leaf_if<ShardedObject>();
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(object->key, "state/rng");
}

template <class T>
Array part_of_128(std::uint32_t rank, std::uint32_t ranks) {
  std::vector<T> values(128 / ranks);
  std::iota(values.begin(), values.end(), static_cast<T>(128 / ranks * rank));
  return Array::adopt(std::move(values));
}

/// The two programs that Megatron's guide begins with: 128 numbers, saved by 8 ranks and loaded by 4, as floats.
TEST_F(StatesOfRanksTest, AreThoseOfTheGuide) {
  const auto part = [](Array data, std::uint32_t rank, std::uint32_t ranks) -> StateDict {
    return {{"weight", ShardedTensor::from_rank_offsets("weight", std::move(data), {{0, rank, ranks}})}};
  };
  expect_saved([&](std::uint32_t rank) { return part(part_of_128<std::int64_t>(rank, 8), rank, 8); }, 8);

  const std::vector<LoadEnd> ends =
      load_on([&](std::uint32_t rank) { return part(Array({32}, DType::float32), rank, 4); }, 4);

  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ends[rank].loaded.state, (Tree{{"weight", part_of_128<float>(rank, 4)}}));
  }
}

// ---- Objects.

StateDict with_object(std::uint32_t rank, int size) {
  const Tree state = {{"name", std::string(static_cast<std::size_t>(size), 'x')},
                      {"rank", static_cast<int>(rank / 2)},
                      {"words", numbers({1, 2, static_cast<std::int32_t>(rank / 2)})}};
  return {{"rng",
           StateDict::list({ShardedObject{"rng_state", state, {2, 2}, {rank / 4, rank / 2 % 2}, rank % 2}})}};
}

TEST_F(StatesOfRanksTest, HaveObjectsOfAGrid) {
  expect_saved([](std::uint32_t rank) { return with_object(rank, 10); }, 8);

  const std::vector<LoadEnd> ends = load_on(
      [](std::uint32_t rank) {
        return StateDict{{"a", ShardedObject{"rng_state", std::nullopt, {2, 2}, {rank / 2, rank % 2}}}};
      },
      4);

  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ends[rank].text, "");
    EXPECT_EQ(ends[rank].loaded.state.at("a/rank").as<int>(), static_cast<int>(rank));
    EXPECT_EQ(ends[rank].loaded.state.at("a/words").as<Array>(),
              numbers({1, 2, static_cast<std::int32_t>(rank)}));
  }
}

TEST_F(StatesOfRanksTest, SayNothingAgainWhileObjectsAndCommonStateChange) {
  JointJob job{JointJob::Options(4)};
  const auto sent_by = [&](int step) {
    const std::uint64_t before = job.network().sent_bytes(3);
    const auto dict = [&](std::uint32_t rank) {
      StateDict state = {{"step", step}};
      for (int i = 0; i < 50; ++i) {
        const int size = 4096 + (step * 977 + i * 131) % 2048;
        state[fmt::format("o{}", i)] = ShardedObject{
            fmt::format("object{}", i), std::string(static_cast<std::size_t>(size), 'x'), {4}, {rank}};
      }
      return state;
    };
    for (const RankEnd& end : save_on(job, dict)) {
      EXPECT_EQ(end.text(), "committed");
    }
    return job.network().sent_bytes(3) - before;
  };

  EXPECT_GT(sent_by(0), 3'000u);
  static_cast<void>(sent_by(1));
  EXPECT_LT(sent_by(2), 2'500u);
  EXPECT_LT(sent_by(3), 2'500u);
}

// ---- Common state.

StateDict with_common(std::uint32_t rank, double rate) {
  return {{"w", ShardedTensor::from_rank_offsets("w", counted({2}), {{0, rank, 3}})},
          {"lr", rank == 2 ? rate : 0.5},
          {"args", {{"a", 1}}}};
}

TEST_F(StatesOfRanksTest, NameWhereCommonStateDiffers) {
  JointJob job{JointJob::Options(3)};
  for (const double rate : {0.5, 0.25, 0.5}) {
    for (const RankEnd& end : save_on(job, [&](std::uint32_t rank) { return with_common(rank, rate); })) {
      ASSERT_TRUE(end.result) << end.text();
      EXPECT_EQ(end.result->problems.size(), rate == 0.5 ? 0u : 1u);
      for (const std::string& problem : end.result->problems) {
        EXPECT_EQ(
            problem,
            "'state': common state of rank 2 differs from rank 0's: only on rank 0: -; only on rank 2: -; "
            "other values: 'lr'");
      }
    }
    EXPECT_EQ(load_common_state_dict(target(), *context_), (Tree{{"args", {{"a", 1}}}, {"lr", 0.5}}));
  }
}

TEST_F(StatesOfRanksTest, AreRefusedWhereCommonStateMustNotDiffer) {
  StateDictSaveOptions options;
  options.rules.requires_same_common = true;
  expect_refused([](std::uint32_t rank) { return with_common(rank, 0.25); }, 3,
                 HasSubstr("common state of rank 2 differs from rank 0's"), options);

  options.rules.before_comparison = [](const Tree& common) {
    Tree compared = common;
    compared.as_map().erase("lr");
    return compared;
  };
  expect_saved([](std::uint32_t rank) { return with_common(rank, 0.25); }, 3, options);
}

TEST_F(StatesOfRanksTest, HaveContentMetadata) {
  StateDictSaveOptions options;
  options.content_metadata = {{"distrib_optim_sharding_type", "fully_reshardable"}};
  expect_saved(two_ranks, 2, options);

  EXPECT_EQ(load_content_metadata(target(), *context_), options.content_metadata);
  EXPECT_EQ(content_metadata_of(load_alone(StateDict()).state), options.content_metadata);
  expect_saved(two_ranks, 2);
  EXPECT_EQ(load_content_metadata(target(), *context_), std::nullopt);
  options.save.overwrite = true;
  JointJob job{JointJob::Options(2)};
  for (const RankEnd& end : save_on(
           job,
           [](std::uint32_t) {
             return StateDict{{"content_metadata", 1}};
           },
           options)) {
    EXPECT_THAT(end.text(), HasSubstr("the dict has 'content_metadata' already"));
  }
}

// ---- Copies, flattened ranges, factories.

TEST_F(StatesOfRanksTest, MayHaveCopiesThatAreCutOtherwise) {
  const Array embedding = counted({6});
  const auto flat_part = [&](std::uint32_t begin, std::uint32_t end, std::uint32_t replica) {
    return ShardedTensor::from_rank_offsets_flat("word", cut(embedding, Box({begin}, {end - begin})), {6}, {},
                                                 {begin, end}, {replica});
  };
  expect_saved(
      [&](std::uint32_t rank) -> StateDict {
        switch (rank) {
          case 0:
            return {{"embedding", flat_part(0, 2, 0)}};
          case 1:
            return {{"embedding", flat_part(2, 6, 0)}};
          case 2:
            return {{"head", flat_part(0, 3, 1)}};
          default:
            return {{"head", flat_part(3, 6, 1)}};
        }
      },
      4);

  EXPECT_EQ(load_plain_tensors(target(), *context_).at("word"), embedding);
}

/// Megatron's guide: a matrix [2, 6] cut by TP over axis 1, whose parts are flattened and cut by DP.
StateDict guide(std::uint32_t rank, std::uint32_t tp, std::uint32_t dp, bool has_data = true) {
  const std::uint64_t columns = 6 / tp;
  const Array local = cut(counted({2, 6}), Box({0, rank % tp * columns}, {2, columns}));
  const std::uint64_t elements = 2 * columns / dp;
  const FlatRange range{rank / tp * elements, (rank / tp + 1) * elements};
  ShardedTensor tensor = ShardedTensor::from_rank_offsets_flat(
      "guide", cut(testing::flat(local), Box({range.begin}, {elements})), {2, columns}, {{1, rank % tp, tp}},
      range);
  return {{"state", has_data ? tensor : tensor.without_data()}};
}

TEST_F(StatesOfRanksTest, AreReshardedFlattened) {
  expect_saved([](std::uint32_t rank) { return guide(rank, 2, 3); }, 6);
  EXPECT_EQ(load_plain_tensors(target(), *context_).at("guide"), counted({2, 6}));

  for (const auto& [tp, dp] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{6, 1}, {3, 2}, {1, 4}}) {
    const std::uint32_t tensor_parallel = tp;
    const std::uint32_t data_parallel = dp;
    const std::vector<LoadEnd> ends = load_on(
        [&](std::uint32_t rank) { return guide(rank, tensor_parallel, data_parallel, false); }, tp * dp);
    for (std::uint32_t rank = 0; rank < tp * dp; ++rank) {
      EXPECT_EQ(ends[rank].text, "");
      const StateDict wanted = guide(rank, tp, dp);
      EXPECT_EQ(ends[rank].loaded.state.at("state").as<Array>(),
                *wanted["state"].leaf_if<ShardedTensor>()->data);
    }
  }
}

/// Gate and up projection [8, 3] each; a rank has its rows of both, one behind the other.
StateDict swiglu(std::uint32_t rank, std::uint32_t tp, bool is_empty = false) {
  const std::uint64_t rows = 8 / tp;
  const Array gate = cut(counted({8, 3}), Box({rank * rows, 0}, {rows, 3}));
  const Array up = cut(counted({8, 3}, 100), Box({rank * rows, 0}, {rows, 3}));
  const std::vector<Array> halves = {gate, up};
  Array fused = concatenate(halves);
  return {{"mlp",
           {{"fc1", swiglu_factory("fc1", is_empty ? Array::zeros(fused.shape(), DType::int32) : fused, 0,
                                   {{0, rank, tp}})}}}};
}

TEST_F(StatesOfRanksTest, GoThroughFactories) {
  expect_saved([](std::uint32_t rank) { return swiglu(rank, 2); }, 2);
  const std::vector<Array> halves = {counted({8, 3}), counted({8, 3}, 100)};
  EXPECT_EQ(load_plain_tensors(target(), *context_).at("fc1"), concatenate(halves));

  const std::vector<LoadEnd> ends = load_on([](std::uint32_t rank) { return swiglu(rank, 4, true); }, 4);

  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ends[rank].text, "");
    const StateDict wanted = swiglu(rank, 4);
    EXPECT_EQ(ends[rank].loaded.state.at("mlp/fc1").as<Array>(),
              *wanted["mlp"]["fc1"].leaf_if<ShardedTensorFactory>()->data);
  }
}

TEST_F(StatesOfRanksTest, ArePaddedAndCut) {
  expect_saved(two_ranks, 2);
  const ShardedTensorOptions mismatch(0, 0, true);

  const Tree state =
      load_alone(
          {{"more", ShardedTensor::from_rank_offsets("w", Array({5, 3}, DType::int32), {}, mismatch)},
           {"fewer", ShardedTensor::from_rank_offsets("own/0", Array({1}, DType::int32), {}, mismatch)}})
          .state;

  const std::vector<Array> padded = {counted({4, 3}), Array::zeros({1, 3}, DType::int32)};
  EXPECT_EQ(state.at("more").as<Array>(), concatenate(padded));
  EXPECT_EQ(state.at("fewer").as<Array>(), numbers({7}));
}

TEST_F(StatesOfRanksTest, SayNothingOfTorchWhereItsFilesAreNotAskedFor) {
  JointJob job{JointJob::Options(2)};
  const auto two_boxes = [](std::uint32_t rank) {
    StateDict::List parts;
    for (std::uint64_t layer = 0; layer < 2; ++layer) {
      parts.emplace_back(ShardedTensor::from_rank_offsets("w", counted({2}), {{0, 2 * layer + rank, 4}}));
    }
    return StateDict{{"layers", StateDict::list(std::move(parts))}};
  };

  for (const testing::RankEnd& end : save_on(job, two_boxes)) {
    ASSERT_EQ(end.text(), "committed");
    EXPECT_THAT(end.result->problems, ::testing::IsEmpty());
  }
}

TEST_F(StatesOfRanksTest, HaveFilesForTorchWhereThatIsAskedFor) {
  const auto layers = [](std::uint32_t rank) {
    StateDict::List parts;
    for (std::uint64_t layer = 0; layer < 3; ++layer) {  // Those of a rank do not touch.
      parts.emplace_back(ShardedTensor::from_rank_offsets("w", counted({2}), {{0, 2 * layer + rank, 6}}));
    }
    return StateDict{{"layers", StateDict::list(std::move(parts))}};
  };
  const auto data_files = [this] {
    const std::vector<std::string> names = testing::list_tree(target() / "state");
    return std::count_if(names.begin(), names.end(),
                         [](const std::string& name) { return name.ends_with(".safetensors"); });
  };
  StateDictSaveOptions options = overwriting();
  expect_saved(layers, 2, options);
  EXPECT_EQ(data_files(), 2);

  options.rules.for_torch = true;
  expect_saved(layers, 2, options);

  EXPECT_EQ(data_files(), 6);
  EXPECT_EQ(load_plain_tensors(target(), *context_).at("w").shape(), (Shape{12}));
}

// ---- What is refused, on all ranks with one text.

StateDict row_of(std::uint32_t row, std::uint32_t rows, std::uint32_t replica = 0) {
  return {{"w", ShardedTensor::from_rank_offsets("decoder.w", counted({1, 3}), {{0, row, rows}}, {replica})}};
}

/// Both ranks hold all of a tensor, which is large enough that each writes a part of it.
StateDict copy_of_large(std::int32_t first, std::uint32_t replica) {
  return {{"w", ShardedTensor::from_rank_offsets("decoder.w", counted({1024, 1024}, first), {}, {replica})}};
}

TEST_F(StatesOfRanksTest, NeedCopiesThatAreAlikeWhereEachRankWritesAPart) {
  expect_refused([](std::uint32_t rank) { return copy_of_large(static_cast<std::int32_t>(rank), rank); }, 2,
                 ::testing::AllOf(HasSubstr("copies of one box differ"), HasSubstr("'decoder.w'"),
                                  HasSubstr("rank 0"), HasSubstr("rank 1")));
  expect_saved([](std::uint32_t rank) { return copy_of_large(7, rank); }, 2);
}

TEST_F(StatesOfRanksTest, MayHaveOtherCopiesWhereTheMainReplicaIsWrittenAlone) {
  StateDictSaveOptions options = overwriting();
  options.rules.replicas = ReplicaChoice::main;

  expect_saved([](std::uint32_t rank) { return copy_of_large(static_cast<std::int32_t>(rank), rank); }, 2,
               options);

  EXPECT_EQ(load_plain_tensors(target(), *context_).at("decoder.w"), counted({1024, 1024}));
}

TEST_F(StatesOfRanksTest, NeedOneMainReplicaOfEachElement) {
  expect_refused([](std::uint32_t rank) { return row_of(rank, 2, rank); }, 2,
                 HasSubstr("'decoder.w': no rank holds box [1:2, 0:3] of [2, 3] as main replica"));
  expect_refused([](std::uint32_t) { return row_of(0, 1); }, 2, HasSubstr("ranks 0 and 1"));
  expect_refused([](std::uint32_t rank) { return row_of(rank, 3); }, 2, HasSubstr("'decoder.w'"));
}

TEST_F(StatesOfRanksTest, NeedOneMainReplicaOfEachObject) {
  const auto object = [](std::uint32_t place, std::uint32_t replica) -> StateDict {
    return {{"o", ShardedObject{"rng_state", 7, {2, 2}, {place / 2, place % 2}, replica}}};
  };
  expect_refused([&](std::uint32_t rank) { return object(rank == 2 ? 3 : rank, 0); }, 3,
                 HasSubstr("'rng_state': 3 of its 4 objects are there; no main replica of [1, 0] of (2, 2)"));
  expect_refused([&](std::uint32_t) { return object(0, 0); }, 2,
                 HasSubstr("'rng_state/shard_0.0_2.2': ranks 0 and 1 both have it as main replica"));
  expect_refused(
      [&](std::uint32_t rank) {
        return rank == 0 ? object(0, 0) : StateDict{{"o", ShardedObject{"rng_state", 7, {3}, {0}}}};
      },
      2, HasSubstr("'rng_state': its grid is (2, 2) on rank 0, (3) on rank 1"));
}

TEST_F(StatesOfRanksTest, HaveOneRoleAndShapeForEachKey) {
  expect_refused(
      [](std::uint32_t rank) {
        return rank == 0 ? row_of(0, 1) : StateDict{{"o", ShardedObject{"decoder.w", 7}}};
      },
      2, HasSubstr("'decoder.w' is a tensor on rank 0 and an object on rank 1"));
  expect_refused([](std::uint32_t rank) { return row_of(rank, rank == 0 ? 2 : 3); }, 2,
                 AllOf(HasSubstr("'decoder.w'"), HasSubstr("[2, 3]"), HasSubstr("[3, 3]")));
}

TEST_F(StatesOfRanksTest, NameTheRankWhoseDictIsWrong) {
  expect_refused(
      [](std::uint32_t rank) {
        StateDict dict = row_of(0, 1, rank);
        if (rank == 1) {
          dict["bad"] = ShardedTensorFactory{
              "f", counted({2}),
              [](auto&&...) -> StateDict { throw Error(Errc::invalid_argument, "no such layer"); },
              [](const Tree&) { return counted({2}); }};
        }
        return dict;
      },
      2, HasSubstr("'state': rank 1: 'bad': its factory: no such layer"));
}

TEST_F(StatesOfRanksTest, AreSavedInAFormThatThereIs) {
  StateDictSaveOptions options;
  options.backend = Backend{"torch_dist", 1};
  expect_refused(two_ranks, 2, HasSubstr("no strategy saves backend 'torch_dist' 1; there are: cairn 1"),
                 options);
}

// ---- Access.

TEST_F(StatesOfRanksTest, AreAskedForOnceByMainReplicas) {
  expect_saved([](std::uint32_t rank) { return row_of(rank, 2); }, 2);
  const auto twice = [](std::uint32_t) { return row_of(0, 2); };
  StateDictLoadOptions options;
  const std::vector<LoadEnd> ends = load_on(twice, 2, options);
  for (const LoadEnd& end : ends) {
    EXPECT_THAT(end.text, HasSubstr("'decoder.w': ranks 0 and 1"));
    EXPECT_EQ(end.text, ends.front().text);
  }
  options.checks_access = false;
  for (const LoadEnd& end : load_on(twice, 2, options)) {
    EXPECT_EQ(end.text, "");
    EXPECT_EQ(end.loaded.state.at("w").as<Array>(), counted({1, 3}));
  }
}

TEST_F(StatesOfRanksTest, NameTheRankWhoseRequestIsWrong) {
  expect_saved([](std::uint32_t rank) { return row_of(rank, 2); }, 2);
  const std::vector<LoadEnd> ends = load_on(
      [](std::uint32_t rank) {
        StateDict dict = row_of(rank, 2);
        if (rank == 1) {
          dict["o"] = ShardedObject{"decoder.w", 7};
        }
        return dict;
      },
      2);
  for (const LoadEnd& end : ends) {
    EXPECT_THAT(end.text, HasSubstr("'state': rank 1: 'decoder.w' is a tensor at 'w' and an object at 'o'"));
    EXPECT_EQ(end.text, ends.front().text);
  }
}

// ---- Strategies.

TEST_F(StatesOfRanksTest, AreTheSameByEachStrategy) {
  const auto replicated = [](std::uint32_t rank) -> StateDict {
    return {{"w", ShardedTensor::from_rank_offsets("w", counted({64, 64}), {}, {rank})},
            {"own", ShardedTensor::from_rank_offsets("own", counted({4}), {{0, rank / 2, 2}}, {rank % 2})}};
  };
  const std::vector<std::uint32_t> groups[] = {{0, 1}, {2, 3}};
  for (const int how : {0, 1, 2, 3}) {
    JointJob job{JointJob::Options(4)};
    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           StateDictSaveOptions options = overwriting();
           if (how == 1) {
             options.strategy = std::make_shared<PlainSave>();
           } else if (how == 2) {
             options.strategy = std::make_shared<FullyParallelSave>();
           } else if (how == 3) {
             options.strategy = std::make_shared<FullyParallelSave>(nullptr, groups[rank / 2]);
           }
           return save(replicated(static_cast<std::uint32_t>(rank)), target(), options, job.context(rank));
         })) {
      EXPECT_EQ(end.text(), "committed") << how;
    }
    for (const bool is_parallel : {false, true}) {
      StateDictLoadOptions options;
      if (is_parallel) {
        options.strategy = std::make_shared<FullyParallelLoad>();
      }
      for (const LoadEnd& end : load_on(replicated, 4, options)) {
        EXPECT_EQ(end.text, "");
        EXPECT_EQ(end.loaded.state.at("w").as<Array>(), counted({64, 64}));
      }
    }
  }
}

// ---- Removal.

TEST_F(StatesOfRanksTest, LoseTensorsThatAreRemoved) {
  expect_saved(two_ranks, 2);

  const RemovedTensors removed = remove_sharded_tensors(target(), "own/");

  EXPECT_THAT(removed.keys, ElementsAre("own/0", "own/1"));
  EXPECT_TRUE(verify(target(), {}, *context_).is_sound());
  EXPECT_THAT(load_plain_tensors(target(), *context_), ElementsAre(Pair("w", counted({4, 3}))));
  EXPECT_EQ(load_common_state_dict(target(), *context_), (Tree{{"step", 7}}));
  EXPECT_EQ(backend_of(target()), (Backend{"cairn", 1}));
  EXPECT_THAT(remove_sharded_tensors(target(), "nothing").keys, IsEmpty());
  EXPECT_THAT(remove_sharded_tensors(target(), "").keys, ElementsAre("w"));
  EXPECT_THAT(load_plain_tensors(target(), *context_), IsEmpty());
}

}  // namespace
}  // namespace cairn::megatron
