// SPDX-License-Identifier: Apache-2.0
// Calls that are wrong on one rank, and dicts that are legal and unusual.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megatron/states_of_ranks.hpp"

namespace cairn::megatron {
namespace {

using ::testing::AllOf;
using testing::counted;
using ::testing::HasSubstr;
using testing::JointJob;
using testing::numbers;
using testing::RankEnd;

class OddCalls : public testing::StatesOfRanks {
 protected:
  static StateDict rows(std::uint32_t rank) {
    return {{"w", ShardedTensor::from_rank_offsets("w", counted({2}, static_cast<std::int32_t>(2 * rank)),
                                                   {{0, rank, 2}})},
            {"o", ShardedObject{"object", 5, {2}, {rank}}},
            {"lr", 0.5}};
  }

  /// Both ranks load; that of rank 1 is `wrong`. Expects one text on both.
  void expect_load_refused(const StateDict& wrong, const ::testing::Matcher<std::string>& why,
                           const StateDictLoadOptions& options = {}) const {
    expect_saved(rows, 2);
    const std::vector<LoadEnd> ends =
        load_on([&](std::uint32_t rank) { return rank == 1 ? wrong : rows(0); }, 2, options);
    for (const LoadEnd& end : ends) {
      EXPECT_THAT(end.text, why);
      EXPECT_EQ(end.text, ends.front().text);
    }
  }

  static StateDictLoadOptions unchecked() {
    StateDictLoadOptions options;
    options.checks_access = false;
    return options;
  }
};

TEST_F(OddCalls, OfALoadThatAsksForAnObjectOutsideOfTheGridAreToldToAll) {
  expect_load_refused({{"o", ShardedObject{"object", std::nullopt, {3}, {2}}}},
                      AllOf(HasSubstr("rank 1"), HasSubstr("'object/shard_2_3'")), unchecked());
}

TEST_F(OddCalls, OfALoadWithAnotherShapeAreToldToAll) {
  expect_load_refused({{"w", ShardedTensor::from_rank_offsets("w", counted({3}), {{0, 1, 2}})}},
                      AllOf(HasSubstr("rank 1"), HasSubstr("'w'")), unchecked());
}

TEST_F(OddCalls, OfALoadWhoseMergeThrowsAreToldToAll) {
  const auto build = [](const std::string& key, const Array& data, auto&&...) -> StateDict {
    return ShardedTensor::from_rank_offsets(key, data, {{0, 1, 2}});
  };
  const auto merge = [](Tree) -> Array { throw std::runtime_error("no such layer"); };
  expect_load_refused({{"f", ShardedTensorFactory{"w", counted({2}), build, merge}}},
                      AllOf(HasSubstr("rank 1"), HasSubstr("'f': its factory"), HasSubstr("no such layer")),
                      unchecked());
}

TEST_F(OddCalls, OfALoadThatPutsATensorWhereAPlainValueLiesAreToldToAll) {
  expect_load_refused({{"lr", ShardedTensor::from_rank_offsets("w", counted({2}), {{0, 1, 2}})}},
                      AllOf(HasSubstr("rank 1"), HasSubstr("'lr'")), unchecked());
}

TEST_F(OddCalls, OfALoadWithAGroupWithoutItsRankAreToldToAll) {
  expect_saved(rows, 2);
  JointJob job{JointJob::Options(2)};
  std::string first;
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         StateDictLoadOptions options;
         options.strategy = std::make_shared<FullyParallelLoad>(
             nullptr, rank == 1 ? std::vector<std::uint32_t>{0} : std::vector<std::uint32_t>{0, 1});
         static_cast<void>(
             load(rows(static_cast<std::uint32_t>(rank)), target(), options, job.context(rank)));
         return SaveResult();
       })) {
    first = first.empty() ? end.text() : first;
    EXPECT_EQ(end.text(), first);
    EXPECT_THAT(end.text(), HasSubstr("group"));
  }
}

TEST_F(OddCalls, OfASaveWithAGroupWithoutItsRankAreToldToAll) {
  JointJob job{JointJob::Options(2)};
  std::string first;
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         StateDictSaveOptions options;
         options.strategy = std::make_shared<FullyParallelSave>(
             nullptr, rank == 1 ? std::vector<std::uint32_t>{0} : std::vector<std::uint32_t>{0, 1});
         return save(rows(static_cast<std::uint32_t>(rank)), target(), options, job.context(rank));
       })) {
    first = first.empty() ? end.text() : first;
    EXPECT_EQ(end.text(), first);
    EXPECT_THAT(end.text(), HasSubstr("group"));
  }
}

TEST_F(OddCalls, WithGroupsThatContradictEachOtherAreToldToAll) {
  const std::vector<std::vector<std::uint32_t>> groups = {{0, 1}, {1, 2}, {2}};
  for (const bool is_load : {false, true}) {
    if (is_load) {
      expect_saved(
          [](std::uint32_t rank) -> StateDict {
            return {{"w", ShardedTensor::from_rank_offsets("w", counted({2}), {}, {rank})}};
          },
          3);
    }
    JointJob job{JointJob::Options(3)};
    std::string first;
    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           const StateDict dict = {{"w", ShardedTensor::from_rank_offsets(
                                             "w", counted({2}), {}, {static_cast<std::uint32_t>(rank)})}};
           if (is_load) {
             StateDictLoadOptions options;
             options.strategy = std::make_shared<FullyParallelLoad>(nullptr, groups[rank]);
             static_cast<void>(load(dict, target(), options, job.context(rank)));
             return SaveResult();
           }
           StateDictSaveOptions options;
           options.strategy = std::make_shared<FullyParallelSave>(nullptr, groups[rank]);
           return save(dict, target(), options, job.context(rank));
         })) {
      first = first.empty() ? end.text() : first;
      EXPECT_EQ(end.text(), first);
      EXPECT_THAT(end.text(), HasSubstr("group"));
    }
  }
}

TEST_F(OddCalls, OfASaveWhoseFunctionsThrowAreToldToAll) {
  expect_refused(
      [](std::uint32_t rank) {
        StateDict dict = rows(rank);
        if (rank == 1) {
          dict["f"] = ShardedTensorFactory{
              "f", counted({2}), [](auto&&...) -> StateDict { throw std::runtime_error("no such layer"); },
              [](const Tree&) { return counted({2}); }};
        }
        return dict;
      },
      2, AllOf(HasSubstr("rank 1"), HasSubstr("'f': its factory"), HasSubstr("no such layer")));
  JointJob job{JointJob::Options(2)};
  std::string first;
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         StateDictSaveOptions options;
         options.rules.before_comparison = [rank](const Tree& common) -> Tree {
           if (rank == 1) {
             throw std::runtime_error("no such argument");
           }
           return common;
         };
         return save(rows(static_cast<std::uint32_t>(rank)), target(), options, job.context(rank));
       })) {
    first = first.empty() ? end.text() : first;
    EXPECT_EQ(end.text(), first);
    EXPECT_THAT(end.text(), AllOf(HasSubstr("rank 1"), HasSubstr("no such argument")));
  }
}

TEST_F(OddCalls, OfASaveWithAnObjectThatCannotBePackedAreToldToAll) {
  expect_refused(
      [](std::uint32_t rank) {
        StateDict dict = rows(rank);
        if (rank == 1) {
          dict["deep"] = ShardedObject{
              "deep", Tree{{"w", ShardedArray({2}, DType::int32, {Shard{Box({0}, {2}), counted({2})}})}}};
        }
        return dict;
      },
      2, AllOf(HasSubstr("rank 1"), HasSubstr("'deep/shard_0_1'")));
}

TEST_F(OddCalls, OfALoadWithoutAMainReplicaAreToldToAll) {
  expect_saved(rows, 2);
  const auto without = [](const char* leaf) {
    return [leaf](std::uint32_t rank) {
      StateDict dict = rows(rank);
      if (rank == 1) {
        dict.map_if()->erase(leaf);
      }
      return dict;
    };
  };
  for (const LoadEnd& end : load_on(without("o"), 2)) {
    EXPECT_THAT(end.text, HasSubstr("'object': 1 of its 2 objects are there; no main replica of [1] of (2)"));
  }
  for (const LoadEnd& end : load_on(without("w"), 2)) {
    EXPECT_THAT(end.text, HasSubstr("'w': 2 of the 4 elements of [0:4] are there; [2:4] is not; next to it"));
  }
}

TEST_F(OddCalls, OfASaveWithAKeyThatIsNotTextAreToldToAll) {
  const std::string key = "\xff";
  expect_refused(
      [&](std::uint32_t rank) -> StateDict {
        return {{"w", ShardedTensor::from_rank_offsets(key, counted({2}), {{0, rank, 2}})}};
      },
      2, AllOf(HasSubstr("ranks 0 and 1: "), HasSubstr("at 'w': a key is UTF-8 text")));
  expect_refused(
      [&](std::uint32_t rank) -> StateDict {
        return {{"o", ShardedObject{key, 1, {2}, {rank}}}};
      },
      2, AllOf(HasSubstr("ranks 0 and 1: "), HasSubstr("at 'o': a key is UTF-8 text")));
}

TEST_F(OddCalls, OfASaveWithATensorThatIsTooLargeAreToldToAll) {
  constexpr std::uint64_t kParts = std::uint64_t{1} << 62;
  expect_refused(
      [](std::uint32_t rank) -> StateDict {
        return {{"w", ShardedTensor::from_rank_offsets("w", counted({1, 1}),
                                                       {{0, rank, kParts}, {1, 0, kParts}})}};
      },
      2, HasSubstr("'w'"));
}

// ---- Legal.

TEST_F(OddCalls, MayBringNothing) {
  expect_saved([](std::uint32_t) { return StateDict(); }, 2);
  for (const LoadEnd& end : load_on([](std::uint32_t) { return StateDict(); }, 3)) {
    EXPECT_EQ(end.text, "");
    EXPECT_EQ(end.loaded.state, Tree::map());
  }
  expect_saved([](std::uint32_t rank) { return rank == 0 ? StateDict() : StateDict{{"a", 3}}; }, 2);
  EXPECT_EQ(load_common_state_dict(target(), *context_), Tree::map());
}

TEST_F(OddCalls, MayAskForNothingOnSomeRanks) {
  expect_saved(rows, 2);
  const StateDict whole = {{"w", ShardedTensor::from_rank_offsets("w", Array({4}, DType::int32))}};
  const std::vector<LoadEnd> ends =
      load_on([&](std::uint32_t rank) { return rank == 1 ? whole : StateDict(); }, 3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ends[rank].text, "");
    EXPECT_EQ(ends[rank].loaded.state.size(), rank == 1 ? 2u : 1u);
  }
}

TEST_F(OddCalls, MayHaveKeysOfAnyText) {
  const std::vector<std::string> keys = {
      "",         "a/b", "a~b", "/",           "//x",      "a/",        "~1",        "~0",  " ",
      "ä\n\"'\\", ".",   "..",  "common.tree", "index.fb", "shard_0_1", "x/shard_0", "%2F", "{}"};
  const auto dict = [&](std::uint32_t rank) {
    StateDict made;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      made[fmt::format("t{}", i)] = ShardedTensor::from_rank_offsets(
          keys[i], counted({3}, static_cast<std::int32_t>(i)), {{0, rank, 2}});
      made[keys[i]]["o"] = ShardedObject{"o" + keys[i], static_cast<int>(i), {2}, {rank}};
      made[keys[i]]["c"] = static_cast<int>(i);
    }
    return made;
  };
  expect_saved(dict, 2);
  for (const LoadEnd& end : load_on(dict, 2)) {
    ASSERT_EQ(end.text, "");
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(*end.loaded.state.as_map().find(fmt::format("t{}", i))->second.array_if(),
                counted({3}, static_cast<std::int32_t>(i)));
      const Tree& one = end.loaded.state.as_map().find(keys[i])->second;
      EXPECT_EQ(one, (Tree{{"o", static_cast<int>(i)}, {"c", static_cast<int>(i)}}));
    }
  }
  EXPECT_EQ(load_plain_tensors(target(), *context_).size(), keys.size());
}

TEST_F(OddCalls, MayHaveTensorsWithoutElements) {
  const auto dict = [](std::uint32_t rank) -> StateDict {
    ShardedTensor uneven;
    uneven.key = "uneven";
    uneven.data = rank == 0 ? Array(Shape{0}, DType::int32) : numbers({1, 2});
    uneven.dtype = DType::int32;
    uneven.local_shape = uneven.data->shape();
    uneven.global_shape = {2};
    uneven.global_offset = {0};
    return {{"u", uneven},
            {"e", ShardedTensor::from_rank_offsets("empty", Array(Shape{0, 3}, DType::float32), {}, {rank})}};
  };
  expect_saved(dict, 2);
  for (const LoadEnd& end : load_on(dict, 2)) {
    EXPECT_EQ(end.text, "");
    EXPECT_EQ(end.loaded.state.at("e").as<Array>().shape(), (Shape{0, 3}));
  }
  EXPECT_EQ(load_plain_tensors(target(), *context_).at("uneven"), numbers({1, 2}));
}

TEST_F(OddCalls, MayHaveSeveralDictsInOneSave) {
  JointJob job{JointJob::Options(2)};
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         SaveOptions options;
         options.registry.add<StateDictHandler>();
         const auto number = static_cast<std::uint32_t>(rank);
         StateDict other = rows(number);
         other["lr"] = rank == 0 ? 0.25 : 0.5;
         const StateDict model = rows(number);
         return save_checkpointables(target(), {{"model", model}, {"optimizer", other}, {"tree", tree_}},
                                     options, job.context(rank));
       })) {
    ASSERT_TRUE(end.result) << end.text();
    ASSERT_EQ(end.result->problems.size(), 1u);
    EXPECT_THAT(end.result->problems[0], HasSubstr("'optimizer': common state of rank 1"));
  }
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         LoadOptions options;
         options.registry.add<StateDictHandler>();
         options.together = true;
         const auto number = static_cast<std::uint32_t>(rank);
         Loaded loaded = load_checkpointables(target(),
                                              {{"model", AbstractStateDict(rows(number))},
                                               {"optimizer", AbstractStateDict(rows(number))},
                                               "tree"},
                                              options, job.context(rank));
         EXPECT_EQ(loaded.take<StateDict>("model").tree().at("o").as<int>(), 5);
         EXPECT_EQ(loaded.take<StateDict>("optimizer").tree().at("lr").as<double>(), 0.25);
         return SaveResult();
       })) {
    EXPECT_EQ(end.text(), "committed");
  }
}

TEST_F(OddCalls, WithGroupsReadEachByteOnceAGroup) {
  const auto copies = [](std::uint32_t rank) -> StateDict {
    return {{"w", ShardedTensor::from_rank_offsets("w", counted({300'000}), {}, {rank})}};
  };
  expect_saved(copies, 4);
  const std::vector<std::uint32_t> groups[] = {{0, 2}, {1, 3}};
  JointJob job{JointJob::Options(4)};
  std::vector<std::uint64_t> bytes(4);
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         StateDictLoadOptions options;
         options.strategy = std::make_shared<FullyParallelLoad>(nullptr, groups[rank % 2]);
         const LoadedStateDict loaded =
             load(copies(static_cast<std::uint32_t>(rank)), target(), options, job.context(rank));
         bytes[rank] = loaded.result.bytes;
         EXPECT_EQ(loaded.state.at("w").as<Array>(), counted({300'000}));
         return SaveResult();
       })) {
    EXPECT_EQ(end.text(), "committed");
  }
  const std::uint64_t all = bytes[0] + bytes[1] + bytes[2] + bytes[3];
  EXPECT_GE(all, 2'400'000u);
  EXPECT_LT(all, 2'500'000u);
}

TEST_F(OddCalls, LeaveTheirValuesAloneWhereHandlersAreChecked) {
  ContextOptions options = small();
  options.check_handlers = true;
  const Context checking(std::move(options));
  StateDict dict = rows(0);
  dict["w"] = ShardedTensor::from_rank_offsets("w", counted({2}));
  dict["o"] = ShardedObject{"object", Tree{{"words", numbers({1, 2})}}};
  dict["f"] = swiglu_factory("f", counted({4, 3}), 0, {});

  EXPECT_THAT(save(dict, target(), {}, checking).problems,
              ::testing::Each(::testing::AnyOf(HasSubstr("torch refuses"), HasSubstr("not checked"))));
  EXPECT_EQ(load_plain_tensors(target(), *context_).at("f"), counted({4, 3}));
}

TEST_F(OddCalls, MayBeCancelled) {
  JointJob job{JointJob::Options(2)};
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         const AsyncResponse saving =
             save_async(rows(static_cast<std::uint32_t>(rank)), target(), overwriting(), job.context(rank));
         saving.cancel();
         return saving.wait();
       })) {
    EXPECT_THAT(end.text(), ::testing::AnyOf("committed", HasSubstr("cancel")));
  }
  expect_saved(rows, 2);
}

}  // namespace
}  // namespace cairn::megatron
