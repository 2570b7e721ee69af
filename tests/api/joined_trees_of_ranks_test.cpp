// SPDX-License-Identifier: Apache-2.0
// Trees of which each rank brings its leaves: the stages of a pipeline, experts. The checkpoint has all of them.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/stored_slices.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "api/trees_of_ranks.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::counted;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::filled;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JointJob;
using ::testing::Not;
using testing::part_of;
using testing::RankEnd;
using testing::rows_of;

class JoinedTreesOfRanks : public testing::TreesOfRanks {
 protected:
  static SaveOptions joined() {
    ShardingOptions sharding;
    sharding.paths = RankPaths::joined;
    SaveOptions options = testing::overwriting_save();
    options.handler_options.set(sharding);
    return options;
  }

  void expect_joined(const TreeOfRank& tree, std::size_t ranks = 4) const {
    expect_saved(tree, ranks, joined());
  }

  /// The problems that each rank is told of, which are the same on all.
  std::vector<std::string> problems_of(JointJob& job, const TreeOfRank& tree) const {
    std::vector<std::vector<std::string>> problems;
    for (const RankEnd& end : save_on(job, tree, joined())) {
      EXPECT_EQ(end.text(), "committed");
      problems.push_back(end.result ? end.result->problems : std::vector<std::string>());
    }
    EXPECT_THAT(problems, Each(problems.front()));
    return problems.front();
  }

  /// The further names of arrays.
  [[nodiscard]] std::vector<std::string> aliases() const {
    std::vector<std::string> names;
    const CheckpointMetadata stored = checkpointables_metadata(target(), *context_);
    for (const ArrayEntry& array : arrays(stored.at("state"))) {
      if (!array.alias_of.empty()) {
        names.emplace_back(array.name);
      }
    }
    return names;
  }

  void expect_not_joined(const TreeOfRank& tree, const ::testing::Matcher<std::string>& why,
                         std::size_t ranks = 2) const {
    JointJob job{JointJob::Options(ranks)};
    for (const RankEnd& end : save_on(job, tree, joined())) {
      EXPECT_THAT(end.text(), AllOf(why, of_all()));
    }
    EXPECT_THAT(left(), IsEmpty());
  }
};

// ---- Four stages of two ranks each, which divide the rows of the stage's arrays.

constexpr std::uint32_t kStages = 4;

std::string layer_of(std::uint32_t stage) {
  return fmt::format("layer{}", stage);
}

Array weights_of(std::uint32_t stage) {
  return filled({6, 4 + stage}, static_cast<std::int32_t>(stage));
}

Tree stage_of(std::uint32_t rank) {
  const std::uint32_t stage = rank / 2;
  const Sharding rows = Sharding::of_spec(Mesh({2}, {"data"}, {2 * stage, 2 * stage + 1}), {{"data"}});
  return {{"model",
           {{layer_of(stage),
             {{"weights", part_of(weights_of(stage), rows, rank)},
              {"scale", filled({2}, static_cast<std::int32_t>(10 + stage))},
              {"name", layer_of(stage)}}}}},
          {"step", 7}};
}

Tree whole_model() {
  Tree model;
  for (std::uint32_t stage = 0; stage < kStages; ++stage) {
    model[layer_of(stage)] = Tree{{"weights", weights_of(stage)},
                                  {"scale", filled({2}, static_cast<std::int32_t>(10 + stage))},
                                  {"name", layer_of(stage)}};
  }
  return {{"model", model}, {"step", 7}};
}

TEST_F(JoinedTreesOfRanks, AreOneCheckpoint) {
  expect_joined(stage_of, 2 * kStages);

  EXPECT_EQ(load_whole(), whole_model());
  EXPECT_EQ(data_files().size(), 2 * kStages);
}

TEST_F(JoinedTreesOfRanks, AreDescribedAsOneTree) {
  expect_joined(stage_of, 2 * kStages);

  AbstractTree stored = cairn::metadata(target(), {}, *context_);

  for (std::uint32_t stage = 0; stage < kStages; ++stage) {
    const AbstractArray& weights = stored["model"][layer_of(stage)]["weights"].as_array();
    EXPECT_EQ(weights.shape, weights_of(stage).shape());
    EXPECT_EQ(weights.stored->size(), 2u);
    EXPECT_THAT(std::string(weights.stored->layout()), HasSubstr("spec"));
  }
}

TEST_F(JoinedTreesOfRanks, AreLoadedByOtherNumbersOfRanks) {
  expect_joined(stage_of, 2 * kStages);
  const AbstractTree stored = cairn::metadata(target(), {}, *context_);
  for (const std::uint32_t readers : {1U, 2U, 3U}) {
    JointJob job{JointJob::Options(readers)};
    std::vector<Tree> loaded(readers);
    LoadOptions options;
    options.together = true;

    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           AbstractTree wanted = stored;
           for (std::uint32_t stage = 0; stage < kStages; ++stage) {
             wanted["model"][layer_of(stage)]["weights"].shard(rows_of(readers),
                                                               static_cast<std::uint32_t>(rank));
           }
           loaded[rank] = load(target(), wanted, options, job.context(rank));
           return SaveResult();
         })) {
      EXPECT_EQ(end.text(), "committed");
    }

    for (std::uint32_t rank = 0; rank < readers; ++rank) {
      for (std::uint32_t stage = 0; stage < kStages; ++stage) {
        EXPECT_EQ(loaded[rank].at("model/" + layer_of(stage) + "/weights").as<ShardedArray>(),
                  part_of(weights_of(stage), rows_of(readers), rank));
      }
      EXPECT_EQ(loaded[rank].at("step").as<int>(), 7);
    }
  }
}

TEST_F(JoinedTreesOfRanks, AreLoadedByTheirStages) {
  expect_joined(stage_of, 2 * kStages);
  AbstractTree stored = cairn::metadata(target(), {}, *context_);
  AbstractTree wanted;
  wanted["model"][layer_of(2)] = stored["model"][layer_of(2)];

  const Tree loaded = load(target(), wanted, partial, *context_);

  EXPECT_EQ(loaded, (Tree{{"model", {{layer_of(2), whole_model().at("model/" + layer_of(2))}}}}));
}

TEST_F(JoinedTreesOfRanks, MayHaveNoShardedArrays) {
  expect_joined([](std::uint32_t rank) {
    return Tree{{layer_of(rank / 2), {{"w", weights_of(rank / 2)}, {"list", Tree::list({1, rank / 2})}}},
                {"step", 7}};
  });

  EXPECT_EQ(load_whole(), (Tree{{layer_of(0), {{"w", weights_of(0)}, {"list", Tree::list({1, 0U})}}},
                                {layer_of(1), {{"w", weights_of(1)}, {"list", Tree::list({1, 1U})}}},
                                {"step", 7}}));
  EXPECT_THAT(data_files(), ElementsAre("data-r00000-000.safetensors", "data-r00002-000.safetensors"));
}

TEST_F(JoinedTreesOfRanks, MayBeTheSameOnAllRanks) {
  const auto tree = [&](std::uint32_t rank) {
    return Tree{{"w", part_of(whole_, rows_of(4), rank)}, {"bias", bias_}, {"step", 7}};
  };
  expect_joined(tree);

  EXPECT_EQ(load_whole(), (Tree{{"w", whole_}, {"bias", bias_}, {"step", 7}}));
}

TEST_F(JoinedTreesOfRanks, MayBeEmptyOnSomeRanks) {
  const Array none({0, 3}, DType::float32);
  expect_joined([&](std::uint32_t rank) {
    return rank != 2 ? Tree::map()
                     : Tree{{"w", whole_}, {"none", none}, {"parts", ShardedArray({0}, DType::int8)}};
  });

  EXPECT_EQ(load_whole(), (Tree{{"w", whole_}, {"none", none}, {"parts", Array({0}, DType::int8)}}));
}

TEST_F(JoinedTreesOfRanks, MayBeEmptyOnAllRanks) {
  expect_joined([](std::uint32_t) { return Tree::map(); }, 2);

  EXPECT_EQ(load_whole(), Tree::map());
}

TEST_F(JoinedTreesOfRanks, MayBeMapsThatAreEmptyElsewhere) {
  expect_joined([](std::uint32_t rank) {
    return Tree{{"experts", rank == 3 ? Tree{{"e3", 3}} : Tree::map()}, {"none", Tree::map()}};
  });

  EXPECT_EQ(load_whole(), (Tree{{"experts", {{"e3", 3}}}, {"none", Tree::map()}}));
}

TEST_F(JoinedTreesOfRanks, MayComeThroughOthersOnTheirWay) {
  JointJob::Options options(7);
  options.fan_out = 2;
  JointJob job(options);

  for (const RankEnd& end : save_on(
           job,
           [&](std::uint32_t rank) {
             return Tree{{fmt::format("own{}", rank), filled({3}, static_cast<std::int32_t>(rank))},
                         {"w", part_of(whole_, rows_of(7), rank)}};
           },
           joined())) {
    EXPECT_EQ(end.text(), "committed");
  }

  const Tree loaded = load_whole();
  EXPECT_EQ(loaded.at("w").as<Array>(), whole_);
  for (int rank = 0; rank < 7; ++rank) {
    EXPECT_EQ(loaded.at(fmt::format("own{}", rank)).as<Array>(), filled({3}, rank));
  }
}

TEST_F(JoinedTreesOfRanks, AreSharedOutAmongTheRanksThatHaveThem) {
  const Array large = counted({512, 512});
  expect_joined([&](std::uint32_t rank) {
    return rank < 2 ? Tree{{"alone", counted({256, 512})}}
                    : Tree{{"w", part_of(large, Sharding::replicated(4), rank)}};
  });

  EXPECT_EQ(load_whole(), (Tree{{"alone", counted({256, 512})}, {"w", large}}));
  for (const std::size_t rank : {2, 3}) {
    EXPECT_NEAR(static_cast<double>(data_bytes_of(rank)), static_cast<double>(large.byte_count() / 2),
                16 << 10);
  }
}

TEST_F(JoinedTreesOfRanks, ShareOutCopiesThatRulesNameAmongTheRanksThatHaveThem) {
  const Array large = counted({512, 512});
  SaveOptions options = joined();
  options.handler_options.set(ArrayRules().add("**", ArrayForm::replicated()));
  expect_saved([&](std::uint32_t rank) { return Tree{{rank < 2 ? "a" : "b", large}}; }, 4, options);

  EXPECT_EQ(load_whole(), (Tree{{"a", large}, {"b", large}}));
  expect_shared_out(2 * large.byte_count());
}

TEST_F(JoinedTreesOfRanks, FollowRulesAboutArraysThatOtherRanksHave) {
  SaveOptions options = joined();
  options.handler_options.set(ArrayRules()
                                  .add("model/layer3/scale", ArrayForm(DType::int64))
                                  .add("model/layer2/weights", DType::int64));
  JointJob job{JointJob::Options(2 * kStages)};
  for (int save = 0; save < 2; ++save) {  // The second one says nothing again.
    for (const RankEnd& end : save_on(job, stage_of, options)) {
      EXPECT_EQ(end.text(), "committed");
    }
  }

  AbstractTree stored = cairn::metadata(target(), {}, *context_);
  EXPECT_EQ(stored["model"]["layer3"]["scale"].as_array().dtype, DType::int64);
  EXPECT_EQ(stored["model"]["layer2"]["weights"].as_array().dtype, DType::int64);
  EXPECT_EQ(stored["model"]["layer2"]["scale"].as_array().dtype, DType::int32);

  options.handler_options.set(ArrayRules().add("model/layer4/scale", DType::int64));
  for (const RankEnd& end : save_on(job, stage_of, options)) {
    EXPECT_THAT(end.text(), HasSubstr("no array of this save matches the rule 'model/layer4/scale'"));
  }
}

TEST_F(JoinedTreesOfRanks, AreDividedAmongFilesByAPolicy) {
  ShardingOptions sharding(std::make_shared<MaxShardSize>(40));
  sharding.paths = RankPaths::joined;
  SaveOptions options;
  options.handler_options.set(sharding);
  expect_saved(stage_of, 2 * kStages, options);

  EXPECT_EQ(load_whole(), whole_model());
  EXPECT_GT(data_files().size(), 2 * kStages);
}

// ---- Arrays with several names.

TEST_F(JoinedTreesOfRanks, AreOneArrayWhereOneRankHasItUnderTwoNames) {
  expect_joined(
      [&](std::uint32_t rank) {
        return rank == 0 ? Tree{{"step", 7}}
               : rank == 1
                   ? Tree{{"a", whole_}, {"b", whole_}}
                   : Tree{{"c", part_of(whole_, rows_of(1), 0)}, {"d", part_of(whole_, rows_of(1), 0)}};
      },
      3);

  EXPECT_EQ(load_whole(), (Tree{{"step", 7}, {"a", whole_}, {"b", whole_}, {"c", whole_}, {"d", whole_}}));
  EXPECT_THAT(aliases(), ElementsAre("b"));
}

TEST_F(JoinedTreesOfRanks, AreTwoArraysWhereAnotherRankWritesOneOfThem) {
  const Array other = filled(whole_.shape(), 5);
  expect_joined(
      [&](std::uint32_t rank) {
        return rank == 0 ? Tree{{"b", other}} : Tree{{"a", whole_}, {"b", whole_}};
      },
      2);

  EXPECT_EQ(load_whole(), (Tree{{"a", whole_}, {"b", other}}));
  EXPECT_THAT(aliases(), IsEmpty());
}

TEST_F(JoinedTreesOfRanks, AreTiedWhereAllRanksThatHaveThemSaySo) {
  expect_joined([&](std::uint32_t rank) {
    if (rank >= 2) {
      return Tree{{"w", part_of(whole_, Sharding::of_spec(Mesh({2}, {"d"}, {2, 3}), {{"d"}}), rank)}};
    }
    const ShardedArray mine = part_of(whole_, rows_of(2), rank);
    return Tree{{"embedding", mine}, {"head", mine}};
  });

  EXPECT_EQ(load_whole(), (Tree{{"embedding", whole_}, {"head", whole_}, {"w", whole_}}));
  EXPECT_THAT(aliases(), ElementsAre("head"));
}

// ---- Values.

TEST_F(JoinedTreesOfRanks, NameValuesThatAllHaveOtherwise) {
  JointJob job{JointJob::Options(4)};
  const auto tree = [&](std::uint32_t rank, bool differs) {
    const std::string own = fmt::format("own{}", rank / 2);
    return Tree{{"a", rank / 2},
                {own, static_cast<int>(rank)},
                {"step", differs && rank == 3 ? 8 : 7},
                {rank < 2 ? "w" : "x", part_of(whole_, rows_of(2), rank % 2)}};
  };
  for (const bool differs : {false, true, false}) {
    const std::vector<std::string> problems =
        problems_of(job, [&](std::uint32_t rank) { return tree(rank, differs); });

    EXPECT_THAT(problems, Contains(AllOf(HasSubstr("'a' on ranks 2 and 3"), Not(HasSubstr("'own")))));
    EXPECT_EQ(problems.front().find("'step' on rank 3") != std::string::npos, differs);
  }
  const Tree loaded = load_whole();
  EXPECT_EQ(loaded.at("a").as<int>(), 0);
  EXPECT_EQ(loaded.at("own1").as<int>(), 2);  // Of the lowest rank that has it.
}

TEST_F(JoinedTreesOfRanks, CompareNothingThatSomeRanksLack) {
  JointJob job{JointJob::Options(2)};

  EXPECT_THAT(problems_of(job,
                          [](std::uint32_t rank) {
                            return Tree{{fmt::format("own{}", rank), std::string(100'000, 'x')}};
                          }),
              IsEmpty());
}

// ---- What is not joined.

TEST_F(JoinedTreesOfRanks, AreRefusedUnlessThatIsAskedFor) {
  JointJob job{JointJob::Options(2 * kStages)};
  for (const RankEnd& end : save_on(job, stage_of)) {
    EXPECT_THAT(
        end.text(),
        AllOf(HasSubstr("the ranks do not save the same: ranks 0 and 1 have 'model/layer0/name': string"),
              HasSubstr("ShardingOptions::paths, RankPaths::joined"), of_all()));
  }
}

TEST_F(JoinedTreesOfRanks, AreAskedForByAllRanks) {
  JointJob job{JointJob::Options(2)};
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         return save(target(), Tree{{"step", 7}}, rank == 1 ? joined() : testing::overwriting_save(),
                     job.context(rank));
       })) {
    EXPECT_THAT(end.text(), HasSubstr("ShardingOptions::paths: rank 0 has none, rank 1 has 'joined'"));
  }
}

TEST_F(JoinedTreesOfRanks, NameLeavesOfDifferentKinds) {
  expect_not_joined(
      [&](std::uint32_t rank) {
        return rank == 0 ? Tree{{"w", counted({3})}} : Tree{{"w", counted({4})}};
      },
      HasSubstr("'state': 'w': rank 0 has array of I32 [3], rank 1 has array of I32 [4]"));
  expect_not_joined(
      [&](std::uint32_t rank) {
        return rank == 0 ? Tree{{"w", 7}} : Tree{{"w", {{"a", 1}}}};
      },
      HasSubstr("'w' is integer on rank 0, and 'w/a' lies below it on rank 1"));
  expect_not_joined(
      [&](std::uint32_t rank) {
        return Tree{{"w", rank == 0 ? Tree::list({1, 2}) : Tree::list({1, 2, 3})}};
      },
      HasSubstr("'w': rank 0 has list of 2, rank 1 has list of 3"));
  expect_not_joined(
      [&](std::uint32_t rank) {
        return Tree{{"w", rank == 0 ? Tree::list({1, 2}) : Tree{{"5", 1}}}};
      },
      HasSubstr("'w' is list of 2 on rank 0, and 'w/5' lies below it on rank 1"));
}

TEST_F(JoinedTreesOfRanks, NameElementsThatNobodyHolds) {
  expect_not_joined(
      [&](std::uint32_t rank) {
        return rank == 0 ? Tree{{"step", 7}} : Tree{{"w", part_of(whole_, rows_of(2), 1)}};
      },
      HasSubstr("'w': 60 of the 130 elements of [0:13, 0:10] are there"));
}

// ---- Steady state.

/// Many arrays of each of two stages, of two ranks each, which hold other rows when the step is odd.
Tree many_of_stage(std::uint32_t rank, int step) {
  Tree tree;
  for (int i = 0; i < 300; ++i) {
    const Array whole = filled({16, 3}, step * 1000 + i);
    const std::uint32_t part = step % 2 == 0 ? rank % 2 : (rank + 1) % 2;
    tree[fmt::format("stage{}/a{}", rank / 2, i)] = part_of(whole, rows_of(2), part);
    tree[fmt::format("stage{}-v{}", rank / 2, i)] = step;
  }
  tree["step"] = step;
  return tree;
}

TEST_F(JoinedTreesOfRanks, SayOnlyWhatHasChanged) {
  JointJob job{JointJob::Options(4)};
  const auto sent_by = [&](int step) {
    const std::uint64_t before = job.network().sent_bytes(3);
    EXPECT_THAT(problems_of(job, [&](std::uint32_t rank) { return many_of_stage(rank, step); }), IsEmpty());
    const Tree loaded = load_whole();
    for (const int stage : {0, 1}) {
      for (int i = 0; i < 300; ++i) {
        EXPECT_EQ(loaded.at(fmt::format("stage{}~1a{}", stage, i)).as<Array>(),
                  filled({16, 3}, step * 1000 + i));
        EXPECT_EQ(loaded.at(fmt::format("stage{}-v{}", stage, i)).as<int>(), step);
      }
    }
    return job.network().sent_bytes(3) - before;
  };

  EXPECT_GT(sent_by(0), 20'000u);
  EXPECT_LT(sent_by(2), 2'000u);  // Signs of life among them.
  EXPECT_GT(sent_by(3), 20'000u);
  EXPECT_LT(sent_by(5), 2'000u);
}

}  // namespace
}  // namespace cairn
