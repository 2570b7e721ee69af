// SPDX-License-Identifier: Apache-2.0
// Trees that several ranks save together, each with its part of the arrays, and that any process loads in any boxes.
#include "api/trees_of_ranks.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/stored_slices.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "core/joint_job.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::counted;
using ::testing::ElementsAre;
using testing::filled;
using ::testing::HasSubstr;
using testing::JointJob;
using testing::part_of;
using testing::RankEnd;
using testing::rows_of;
using testing::TreesOfRanks;

TEST_F(TreesOfRanks, AreOneCheckpoint) {
  expect_saved([&](std::uint32_t rank) {
    return Tree{
        {"w", part_of(whole_, rows_of(4), rank)}, {"bias", bias_}, {"step", 7}, {"empty", Tree::map()}};
  });

  EXPECT_EQ(load_whole(), (Tree{{"w", whole_}, {"bias", bias_}, {"step", 7}, {"empty", Tree::map()}}));
  EXPECT_EQ(data_files().size(), 4u);
}

TEST_F(TreesOfRanks, AreLoadedInAnyBoxes) {
  expect_saved([&](std::uint32_t rank) { return Tree{{"w", part_of(whole_, rows_of(4), rank)}}; });
  const Sharding columns = Sharding::of_spec(Mesh({3}, {"model"}), {{}, {"model"}});
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    AbstractTree wanted;
    wanted["w"] = cairn::wanted(AbstractArray{whole_.shape(), whole_.dtype()}, columns, rank);

    const Tree loaded = load(target(), wanted, {}, *context_);

    EXPECT_EQ(loaded.at("w").as<ShardedArray>(), part_of(whole_, columns, rank));
  }
}

TEST_F(TreesOfRanks, AreSavedByManyAlongATree) {
  JointJob::Options options(7);
  options.fan_out = 2;
  JointJob job(options);

  for (const RankEnd& end : save_on(job, [&](std::uint32_t rank) {
         return Tree{{"w", part_of(whole_, rows_of(7), rank)}};
       })) {
    EXPECT_EQ(end.text(), "committed");
  }

  EXPECT_EQ(load_whole(), (Tree{{"w", whole_}}));
}

TEST_F(TreesOfRanks, WriteReplicasOnceAndShareTheWork) {
  const Array large = counted({512, 512});
  expect_saved([&](std::uint32_t rank) {
    return Tree{{"w", part_of(large, Sharding::replicated(4), rank)}};
  });

  EXPECT_EQ(load_whole(), (Tree{{"w", large}}));
  EXPECT_LT(data_bytes(), large.byte_count() + (64 << 10));
  for (const std::string& name : data_files()) {
    EXPECT_LT(std::filesystem::file_size(target() / "state" / name), large.byte_count() / 4 + (16 << 10));
  }
}

TEST_F(TreesOfRanks, AreSharedOutSoThatRankZeroCanWriteTheRestAlone) {
  const Array large = counted({1024, 512});
  const Array alone = counted({256, 512});
  expect_saved([&](std::uint32_t rank) {
    return Tree{{"alone", alone}, {"w", part_of(large, Sharding::replicated(4), rank)}};
  });

  expect_shared_out(large.byte_count() + alone.byte_count());
  EXPECT_EQ(load_whole(), (Tree{{"alone", alone}, {"w", large}}));
}

TEST_F(TreesOfRanks, ShareOutTheArraysThatRulesSayAllHave) {
  const Array large = counted({1024, 512});
  SaveOptions options;
  options.handler_options.set(
      ArrayRules().add("**", ArrayForm::replicated()).add("bias", ArrayForm::replicated(false)));
  const Tree tree = {
      {"bias", bias_}, {"params", {{"w", large}, {"tied", large}, {"none", counted({0, 3})}}}, {"step", 7}};
  expect_saved([&](std::uint32_t) { return tree; }, 4, options);

  expect_shared_out(large.byte_count());
  EXPECT_EQ(load_whole(), tree);
  AbstractTree stored = cairn::metadata(target(), {}, *context_);
  EXPECT_GT(stored["params"]["w"].as_array().stored->size(), 1u);
  EXPECT_EQ(stored["bias"].as_array().stored, nullptr);
}

TEST_F(TreesOfRanks, MayHaveRulesAboutCopiesInOneProcess) {
  SaveOptions options;
  options.handler_options.set(ArrayRules().add("**", ArrayForm::replicated()));
  save(target(), Tree{{"w", whole_}}, options, *context_);

  EXPECT_EQ(load_whole(), (Tree{{"w", whole_}}));
}

TEST_F(TreesOfRanks, TellWhatRankZeroWroteAloneWhereThatIsMost) {
  JointJob job{JointJob::Options(3)};
  const Array large = counted({512, 512});
  const auto wrote_alone = HasSubstr("rank 0 wrote 1048576 of the ");
  const std::vector<RankEnd> ends = save_on(job, [&](std::uint32_t rank) {
    return Tree{{"large", large}, {"w", part_of(whole_, rows_of(3), rank)}};
  });
  EXPECT_THAT(ends.at(0).result.value().problems,
              ::testing::Contains(AllOf(wrote_alone, HasSubstr("ArrayForm::replicated"))));
  EXPECT_THAT(ends.at(1).result.value().problems, ::testing::Not(::testing::Contains(wrote_alone)));

  const std::vector<RankEnd> shared = save_on(
      job,
      [&](std::uint32_t rank) {
        return Tree{{"bias", large}, {"w", part_of(counted({2048, 512}), rows_of(3), rank)}};
      },
      testing::overwriting_save());
  EXPECT_THAT(shared.at(0).result.value().problems, ::testing::Not(::testing::Contains(wrote_alone)));
}

TEST_F(TreesOfRanks, MayHoldNothingOnSomeRanks) {
  expect_saved([&](std::uint32_t rank) {
    return Tree{{"w", rank == 1 ? ShardedArray({13, 10}, DType::int32, {{Box::whole({13, 10}), whole_}})
                                : ShardedArray({13, 10}, DType::int32)},
                {"none", ShardedArray({0, 3}, DType::float32)}};
  });

  EXPECT_EQ(load_whole(), (Tree{{"w", whole_}, {"none", Array({0, 3}, DType::float32)}}));
  EXPECT_EQ(data_files().size(), 2u);
}

TEST_F(TreesOfRanks, AreRankZerosAloneWithoutShardedArrays) {
  expect_saved([&](std::uint32_t) { return Tree{{"bias", bias_}, {"step", 7}}; });

  EXPECT_EQ(load_whole(), (Tree{{"bias", bias_}, {"step", 7}}));
  EXPECT_EQ(data_files().size(), 1u);
}

TEST_F(TreesOfRanks, AreDividedAmongFilesByThePolicyOfEachRank) {
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(120)));
  expect_saved(
      [&](std::uint32_t rank) {
        return Tree{{"w", part_of(whole_, rows_of(4), rank)}, {"bias", bias_}};
      },
      4, options);

  EXPECT_EQ(load_whole(), (Tree{{"w", whole_}, {"bias", bias_}}));
  EXPECT_GT(data_files().size(), 4u);
}

/// Puts all into one file, and does not expect to be asked about nothing.
class OneFile final : public ShardingPolicy {
 public:
  std::string description() const override { return "One file."; }
  std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
    std::vector<FilePlan> files(1);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      files[0].push_back({i, {}, {}});
    }
    return files;
  }
};

TEST_F(TreesOfRanks, AskNoPolicyOnRanksThatWriteNothing) {
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<OneFile>()));
  expect_saved([&](std::uint32_t) { return Tree{{"bias", bias_}, {"step", 7}}; }, 3, options);

  EXPECT_EQ(load_whole(), (Tree{{"bias", bias_}, {"step", 7}}));
}

TEST_F(TreesOfRanks, AreTheHandlersOfOneArrayToo) {
  JointJob job{JointJob::Options(3)};
  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    const ShardedArray mine = part_of(whole_, rows_of(3), static_cast<std::uint32_t>(rank));
    return save_checkpointables(target(), {{"w", mine}}, {}, job.context(rank));
  });
  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.text(), "committed");
  }

  Loaded loaded = load_items({Request("w")});
  const ShardedArray w = loaded.take<ShardedArray>("w");
  EXPECT_EQ(w.layout()->hash(), rows_of(3).hash());
  EXPECT_EQ(w.shards().size(), 3u);
}

TEST_F(TreesOfRanks, AreCast) {
  SaveOptions options;
  ArrayOptions arrays;
  arrays.storage_dtype = DType::float32;
  arrays.narrowing = Narrowing::allowed;
  options.handler_options.set(arrays);
  const Array exact = Array::zeros({6, 2}, DType::float64);
  expect_saved([&](std::uint32_t rank) { return Tree{{"w", part_of(exact, rows_of(3), rank)}}; }, 3, options);

  EXPECT_EQ(load_whole().at("w").as<Array>().dtype(), DType::float32);
}

TEST_F(TreesOfRanks, AreStoredByRulesAlsoOfWhatRankZeroDoesNotHold) {
  SaveOptions options;
  options.handler_options.set(ArrayRules().add("w", DType::int64));
  const auto tree = [&](std::uint32_t rank) {
    return Tree{
        {"w", rank == 2 ? part_of(whole_, rows_of(1), 0) : ShardedArray(whole_.shape(), whole_.dtype())},
        {"v", whole_}};
  };
  expect_saved(tree, 3, options);

  const Tree loaded = load_whole();
  EXPECT_EQ(loaded.at("w").as<Array>().dtype(), DType::int64);
  EXPECT_EQ(loaded.at("v").as<Array>(), whole_);
}

TEST_F(TreesOfRanks, AreAllToldOfARuleThatMatchesNothing) {
  SaveOptions options;
  options.handler_options.set(ArrayRules().add("params/**", DType::int64));
  JointJob job{JointJob::Options(3)};
  const auto tree = [&](std::uint32_t rank) { return Tree{{"w", part_of(whole_, rows_of(3), rank)}}; };

  for (const RankEnd& end : save_on(job, tree, options)) {
    EXPECT_THAT(end.text(), HasSubstr("no array of this save matches the rule 'params/**'"));
  }
  EXPECT_THAT(left(), ::testing::IsEmpty());
}

TEST_F(TreesOfRanks, AreSavedAgainWithOtherParts) {
  JointJob job{JointJob::Options(3)};
  const SaveOptions options = testing::overwriting_save();
  for (const std::uint32_t holders : {3U, 2U, 1U}) {
    const auto tree = [&](std::uint32_t rank) {
      return Tree{{"w", rank < holders ? part_of(whole_, rows_of(holders), rank)
                                       : ShardedArray(whole_.shape(), whole_.dtype())}};
    };
    for (const RankEnd& end : save_on(job, tree, options)) {
      EXPECT_EQ(end.text(), "committed");
    }
    EXPECT_EQ(load_whole(), (Tree{{"w", whole_}}));
  }
}

/// Many arrays, of which the ranks have other rows when the step is odd.
Tree many_arrays(std::uint32_t rank, int step) {
  Tree tree;
  for (int i = 0; i < 300; ++i) {
    const Array whole = filled({16, 3}, step * 1000 + i);
    const std::uint32_t part = step % 2 == 0 ? rank : (rank + 1) % 4;
    tree["a" + std::to_string(i)] = part_of(whole, rows_of(4), part);
  }
  tree["step"] = step;
  return tree;
}

class TreesOfRanksSavedAgain : public TreesOfRanks {
 protected:
  /// Saves, and says how many bytes rank 3 has sent for that.
  std::uint64_t save_step(int step, const SaveOptions& options = testing::overwriting_save()) {
    const std::uint64_t before = job_.network().sent_bytes(3);
    for (const RankEnd& end : save_on(
             job_, [&](std::uint32_t rank) { return many_arrays(rank, step); }, options)) {
      EXPECT_EQ(end.text(), "committed");
    }
    const Tree loaded = load_whole();
    EXPECT_EQ(loaded.at("step").as<int>(), step);
    for (int i = 0; i < 300; ++i) {
      EXPECT_EQ(loaded.at("a" + std::to_string(i)).as<Array>(), filled({16, 3}, step * 1000 + i));
    }
    return job_.network().sent_bytes(3) - before;
  }

  JointJob job_{JointJob::Options(4)};
};

TEST_F(TreesOfRanksSavedAgain, SayOnlyWhatHasChanged) {
  const std::uint64_t first = save_step(0);

  EXPECT_GT(first, 20'000u);
  EXPECT_LT(save_step(2), 2'000u);  // Signs of life among them, which a slow machine has more of.
  EXPECT_LT(save_step(4), 2'000u);
}

TEST_F(TreesOfRanksSavedAgain, AreDividedAnewWhenRanksHoldOtherParts) {
  save_step(0);

  EXPECT_GT(save_step(1), 20'000u);
  EXPECT_LT(save_step(1), 2'000u);
  EXPECT_GT(save_step(2), 20'000u);
}

TEST_F(TreesOfRanksSavedAgain, AreDividedAnewWhenOneRankHoldsSomethingElse) {
  save_step(0);
  const Array whole = counted({8, 3});
  const auto tree = [&](std::uint32_t rank, bool is_given_away) {
    const bool has_it = is_given_away ? rank == 1 : rank == 3;
    return Tree{{"w", has_it
                          ? ShardedArray(whole.shape(), whole.dtype(), {{Box::whole(whole.shape()), whole}})
                          : ShardedArray(whole.shape(), whole.dtype())}};
  };
  for (const bool is_given_away : {false, false, true, true, false}) {
    for (const RankEnd& end : save_on(
             job_, [&](std::uint32_t rank) { return tree(rank, is_given_away); },
             testing::overwriting_save())) {
      EXPECT_EQ(end.text(), "committed");
    }
    EXPECT_EQ(load_whole(), (Tree{{"w", whole}}));
    EXPECT_THAT(data_files(),
                ElementsAre(is_given_away ? "data-r00001-000.safetensors" : "data-r00003-000.safetensors"));
  }
}

TEST_F(TreesOfRanksSavedAgain, MayBeStoredOtherwise) {
  save_step(0);
  SaveOptions options = testing::overwriting_save();
  options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(200)));
  save_step(2, options);
  EXPECT_GT(data_files().size(), 4u);
  save_step(4);
  EXPECT_EQ(data_files().size(), 4u);
}

TEST_F(TreesOfRanksSavedAgain, MayChooseReplicasOtherwise) {
  const Array large = counted({512, 512});
  const auto files = [&](ReplicaChoice choice) {
    SaveOptions options = testing::overwriting_save();
    ShardingOptions sharding;
    sharding.replicas = choice;
    options.handler_options.set(sharding);
    for (const RankEnd& end : save_on(
             job_,
             [&](std::uint32_t rank) {
               return Tree{{"w", part_of(large, Sharding::replicated(4), rank)}};
             },
             options)) {
      EXPECT_EQ(end.text(), "committed");
    }
    EXPECT_EQ(load_whole(), (Tree{{"w", large}}));
    return data_files().size();
  };

  EXPECT_EQ(files(ReplicaChoice::balanced_and_split), 4u);
  EXPECT_EQ(files(ReplicaChoice::main), 1u);
  EXPECT_EQ(files(ReplicaChoice::balanced_and_split), 4u);
}

TEST_F(TreesOfRanksSavedAgain, AreRefusedStillWhenRanksDiffer) {
  save_step(0);
  for (const RankEnd& end : save_on(
           job_,
           [&](std::uint32_t rank) {
             Tree tree = many_arrays(rank, 2);
             if (rank == 2) {
               tree["a7"] = 1;
             }
             return tree;
           },
           testing::overwriting_save())) {
    EXPECT_THAT(end.text(), AllOf(HasSubstr("the ranks do not save the same"), HasSubstr("'a7'")));
  }
  save_step(4);
}

TEST_F(TreesOfRanks, TellWhatTheirPolicyWarnsOf) {
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(3)));  // Less than an element.
  const auto result = save(target(), Tree{{"w", counted({2})}}, options, *context_);

  ASSERT_EQ(result.problems.size(), 2u);
  EXPECT_THAT(result.problems.front(),
              AllOf(HasSubstr("'state'"), HasSubstr("sharding policy"), HasSubstr("'state/w'")));
  EXPECT_EQ(result.work(Work::divide).count, 2u);
  EXPECT_EQ(result.work(Work::divide).bytes, 8u);
  ASSERT_EQ(result.policies.size(), 1u);
  EXPECT_EQ(result.policies[0].description, MaxShardSize(3).description());
  EXPECT_EQ(result.policies[0].work.count, 2u);
}

/// Shardings of every kind that fit a random shape.
Sharding some_sharding(std::mt19937& random, std::uint32_t ranks, std::size_t dimensions) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  if (dimensions == 0 || below(4) == 0) {
    return Sharding::replicated(ranks);
  }
  std::vector<std::vector<std::string>> spec(dimensions);
  std::uint32_t rows = 1;
  while (ranks % 2 == 0 && rows == 1 && below(2) == 0) {
    rows = 2;
  }
  const Mesh mesh({rows, ranks / rows}, {"data", "model"});
  if (below(4) != 0) {
    spec[below(static_cast<std::uint32_t>(dimensions))].push_back("data");
  }
  if (below(4) != 0) {
    spec[below(static_cast<std::uint32_t>(dimensions))].push_back("model");
  }
  return Sharding::of_spec(mesh, spec);
}

TEST_F(TreesOfRanks, ComeBackWhateverTheirDivision) {
  std::mt19937 random(7);
  SaveOptions options = testing::overwriting_save();
  for (std::uint32_t round = 0; round < 30; ++round) {
    const auto ranks = static_cast<std::uint32_t>(1 + random() % 6);
    std::vector<Array> wholes;
    std::vector<Sharding> saved;
    std::vector<Sharding> wanted;
    const auto readers = static_cast<std::uint32_t>(1 + random() % 5);
    for (int array = 0; array < 4; ++array) {
      std::vector<std::uint64_t> extents(random() % 4);
      for (std::uint64_t& extent : extents) {
        extent = random() % 8;
      }
      wholes.push_back(counted(Shape(extents)));
      saved.push_back(some_sharding(random, ranks, extents.size()));
      wanted.push_back(some_sharding(random, readers, extents.size()));
    }
    const auto tree_of = [&](const std::vector<Sharding>& shardings, std::uint32_t rank) {
      Tree tree;
      for (std::size_t i = 0; i < wholes.size(); ++i) {
        tree["a" + std::to_string(i)] = part_of(wholes[i], shardings[i], rank);
      }
      return tree;
    };
    if (round % 3 == 0) {
      options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(1 + random() % 200)));
    }
    JointJob job{JointJob::Options(ranks)};
    for (const RankEnd& end : save_on(
             job, [&](std::uint32_t rank) { return tree_of(saved, rank); }, options)) {
      ASSERT_EQ(end.text(), "committed") << "round " << round;
    }

    for (std::uint32_t rank = 0; rank < readers; ++rank) {
      AbstractTree asked;
      for (std::size_t i = 0; i < wholes.size(); ++i) {
        asked["a" + std::to_string(i)] =
            cairn::wanted(AbstractArray{wholes[i].shape(), wholes[i].dtype()}, wanted[i], rank);
      }
      const Tree loaded = load(target(), asked, {}, *context_);
      for (std::size_t i = 0; i < wholes.size(); ++i) {
        EXPECT_EQ(loaded.at("a" + std::to_string(i)).as<ShardedArray>(), part_of(wholes[i], wanted[i], rank))
            << "round " << round << ", array " << i;
      }
    }
  }
}

}  // namespace
}  // namespace cairn
