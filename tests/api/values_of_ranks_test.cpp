// SPDX-License-Identifier: Apache-2.0
// Values that are not sharded and that ranks have otherwise: rank 0's are saved, and the others named.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cairn/handlers/array_rules.hpp"
#include "cairn/sharding/shards.hpp"

#include "api/fixture.hpp"
#include "core/joint_job.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JointJob;
using ::testing::Not;
using testing::RankEnd;

class ValuesOfRanks : public testing::ApiTest {
 protected:
  using TreeOfRank = std::function<Tree(std::uint32_t rank)>;

  /// The problem with values that all ranks are told of, or nothing.
  std::string problem_of(JointJob& job, const TreeOfRank& tree) const {
    std::vector<std::string> problems;
    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           return save(target(), tree(static_cast<std::uint32_t>(rank)), testing::overwriting_save(),
                       job.context(rank));
         })) {
      EXPECT_EQ(end.text(), "committed");
      const std::vector<std::string> told = end.result ? end.result->problems : std::vector<std::string>();
      const auto values = std::find_if(told.begin(), told.end(), [](const std::string& each) {
        return each.find("values that are not sharded") != std::string::npos;
      });
      problems.push_back(values == told.end() ? "" : *values);
    }
    EXPECT_THAT(problems, Each(problems.front()));
    return problems.front();
  }

  static Array filled(std::uint64_t elements, std::int32_t value) {
    Array array({elements}, DType::int32);
    for (std::int32_t& element : array.data<std::int32_t>()) {
      element = value;
    }
    return array;
  }
};

Tree state_of(std::uint32_t rank, const Array& bias, const Array& large) {
  return {{"bias", bias}, {"large", large}, {"name", "run"}, {"step", rank == 0 ? 7 : 8}};
}

TEST_F(ValuesOfRanks, AreNamedWhereTheyAreOthersThanRankZeros) {
  JointJob job{JointJob::Options(4)};

  const std::string problem = problem_of(job, [](std::uint32_t rank) {
    return state_of(rank, filled(4, rank == 2 ? 5 : 4), filled(16 << 10, rank == 1 ? 1 : 0));
  });

  EXPECT_THAT(problem, AllOf(HasSubstr("'state'"),
                             HasSubstr("'bias' on rank 2; 'large' on rank 1; 'step' on ranks 1, 2 and 3")));
  EXPECT_THAT(problem, Not(HasSubstr("'name'")));
  EXPECT_EQ(load(target(), {}, *context_).at("step").as<int>(), 7);
}

TEST_F(ValuesOfRanks, AreNamedBesideShardedArraysInEverySave) {
  JointJob job{JointJob::Options(3)};
  const Sharding rows = Sharding::of_spec(Mesh({3}, {"data"}), {{"data"}});
  for (const int step : {1, 2, 3}) {
    const std::string problem = problem_of(job, [&](std::uint32_t rank) {
      Array local({rows.boxes(rank, {9})[0].box.extents()[0]}, DType::int32);
      std::vector<Array> locals = {local};
      return Tree{{"step", step == 2 && rank == 1 ? 0 : step},
                  {"w", shard(rows, rank, {9}, DType::int32, std::move(locals))}};
    });

    EXPECT_THAT(problem, step == 2 ? HasSubstr("'step' on rank 1") : HasSubstr("")) << step;
    EXPECT_EQ(problem.empty(), step != 2) << problem;
  }
}

/// The state of a random engine, which is another one on each rank.
Array random_state(std::uint32_t rank) {
  std::vector<std::uint32_t> state(624);
  std::mt19937 engine(rank);
  std::generate(state.begin(), state.end(), std::ref(engine));
  return Array::adopt(std::move(state));
}

TEST_F(ValuesOfRanks, AreNamedWhereTheyAreRandomStates) {
  JointJob job{JointJob::Options(3)};
  const Sharding rows = Sharding::of_spec(Mesh({3}, {"data"}), {{"data"}});
  for (const bool is_beside_sharded : {false, true}) {
    const std::string problem = problem_of(job, [&](std::uint32_t rank) {
      Tree tree = {{"random", random_state(rank)}};
      if (is_beside_sharded) {
        std::vector<Array> locals = {Array({3}, DType::int32)};
        tree["w"] = shard(rows, rank, {9}, DType::int32, std::move(locals));
      }
      return tree;
    });

    EXPECT_THAT(problem, HasSubstr("'random' on ranks 1 and 2")) << is_beside_sharded;
  }
}

TEST_F(ValuesOfRanks, MayBeRandomEnginesOfEachRank) {
  JointJob job{JointJob::Options(3)};
  SaveOptions options = testing::overwriting_save();
  options.ranks_must_agree = true;
  const Sharding rows = Sharding::of_spec(Mesh({3}, {"data"}), {{"data"}});
  for (const bool is_beside_sharded : {false, true}) {
    const auto save_all = [&](std::size_t rank) {
      std::vector<std::mt19937_64> random(2, std::mt19937_64(rank));
      Tree tree = {{"random", random}, {"minimal", std::minstd_rand(1 + rank)}, {"step", 7}};
      if (is_beside_sharded) {
        std::vector<Array> locals = {Array({3}, DType::int32)};
        tree["w"] = shard(rows, static_cast<std::uint32_t>(rank), {9}, DType::int32, std::move(locals));
      }
      return save(target(), tree, options, job.context(rank));
    };
    for (const RankEnd& end : job.on_all(save_all)) {
      EXPECT_EQ(end.text(), "committed") << is_beside_sharded;
    }
    EXPECT_EQ(load(target(), {}, *context_).get<std::minstd_rand>("minimal"), std::minstd_rand(1));
  }
}

TEST_F(ValuesOfRanks, AreNamedWhereTheyAreTextsOfRandomEngines) {
  JointJob job{JointJob::Options(2)};

  const std::string problem = problem_of(job, [](std::uint32_t rank) {
    return Tree{{"text", Tree(std::mt19937(rank)).as<std::string>()}};
  });

  EXPECT_THAT(problem, HasSubstr("'text' on rank 1"));
}

TEST_F(ValuesOfRanks, OfLargeLeavesAreNamedAndNothingIsSaidOfThoseThatAreTheSame) {
  JointJob job{JointJob::Options(2)};
  constexpr std::uint64_t kLarge = 1 << 20;

  const std::string problem = problem_of(job, [&](std::uint32_t rank) {
    const auto mine = static_cast<std::int32_t>(rank);
    const std::string text(kLarge, 'x');
    return Tree{{"experts.0.w", filled(kLarge, mine)},
                {"shared", filled(kLarge + 1, 0)},
                {"same", text},
                {"text", text + (rank == 0 ? "a" : "b")},
                {"bytes", Bytes(kLarge, std::byte{0})}};
  });
  EXPECT_THAT(problem, AllOf(HasSubstr("elsewhere: 'experts.0.w' on rank 1; 'text' on rank 1 (")));

  EXPECT_THAT(problem_of(job, [&](std::uint32_t) { return Tree{{"shared", filled(kLarge, 0)}}; }), IsEmpty());
}

TEST_F(ValuesOfRanks, AreComparedWholeUpTo16MiBTheSmallestFirst) {
  JointJob job{JointJob::Options(2)};
  constexpr std::uint64_t kMost = 16 << 10;  // Of int32, 64 KiB.

  const std::string problem = problem_of(job, [&](std::uint32_t rank) {
    Tree tree;
    for (int i = 0; i < 256; ++i) {
      tree[fmt::format("a{:03}", i)] = filled(kMost, 0);
    }
    Array z = filled(kMost - 1, 0);
    z.data<std::int32_t>()[100] =
        static_cast<std::int32_t>(rank);  // At no place that is looked at of large ones.
    tree["z"] = z;
    return tree;
  });

  EXPECT_THAT(problem, HasSubstr("elsewhere: 'z' on rank 1 ("));
}

TEST_F(ValuesOfRanks, OfLargeLeavesAreTheSameHoweverTheyLieInMemory) {
  JointJob job{JointJob::Options(2)};
  Array rows({3000, 40}, DType::int32);
  std::iota(rows.data<std::int32_t>().begin(), rows.data<std::int32_t>().end(), 0);
  const Array columns = rows.part(Box({0, 7}, {3000, 30}));
  ASSERT_FALSE(columns.view().is_contiguous());

  EXPECT_THAT(problem_of(job,
                         [&](std::uint32_t rank) {
                           return Tree{{"a", rank == 0 ? columns : columns.clone()}};
                         }),
              IsEmpty());
}

TEST_F(ValuesOfRanks, ThatRulesCallReplicatedMustBeTheSame) {
  JointJob job{JointJob::Options(3)};
  SaveOptions options = testing::overwriting_save();
  ArrayRules rules;
  rules.add("**", ArrayForm::replicated());
  options.handler_options.set(rules);

  for (const std::uint64_t elements : {std::uint64_t{100}, std::uint64_t{1} << 20}) {
    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           const Tree tree = {{"w", filled(elements, rank == 2 ? 1 : 0)}, {"same", filled(elements, 0)}};
           return save(target(), tree, options, job.context(rank));
         })) {
      EXPECT_THAT(end.text(),
                  AllOf(HasSubstr("ranks differ"), HasSubstr("'w' on rank 2"), Not(HasSubstr("same'"))))
          << elements;
    }
    EXPECT_FALSE(is_checkpoint(target(), {}, *context_));
  }
}

TEST_F(ValuesOfRanks, MustBeTheSameWhereTheProgramSaysSo) {
  JointJob job{JointJob::Options(2)};
  SaveOptions options = testing::overwriting_save();
  options.ranks_must_agree = true;
  const auto texts = [&](int of_other) {
    std::vector<std::string> told;
    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           const Tree tree = {{"step", rank == 0 ? 7 : of_other}};
           return save(target(), tree, options, job.context(rank));
         })) {
      told.push_back(end.text());
    }
    return told;
  };

  EXPECT_THAT(texts(8), Each(AllOf(HasSubstr("ranks differ"), HasSubstr("'step' on rank 1"))));
  options.may_differ = {"loader/**", "st*p"};
  EXPECT_THAT(texts(8), Each("committed"));
  options.may_differ = {"loader/**"};
  EXPECT_THAT(texts(8), Each(HasSubstr("ranks differ")));
  options.may_differ = {"a//b"};
  EXPECT_THAT(texts(7), Each(AllOf(HasSubstr("'a//b' of SaveOptions::may_differ"), HasSubstr("empty key"))));
  options.may_differ.clear();
  EXPECT_THAT(texts(7), Each("committed"));
}

TEST_F(ValuesOfRanks, AreToldAloudOnceByRankZero) {
  std::vector<std::string> aloud;
  JointJob::Options options(3);
  options.on_problem = [&aloud](const std::string& path, const std::string& problem) {
    aloud.push_back(path + ": " + problem);
  };
  JointJob job{options};
  const auto differing = [](std::uint32_t rank) { return Tree{{"step", rank}}; };
  EXPECT_THAT(problem_of(job, [](std::uint32_t) { return Tree{{"step", 0}}; }), IsEmpty());
  EXPECT_THAT(aloud, IsEmpty());

  EXPECT_THAT(problem_of(job, differing), HasSubstr("'step' on ranks 1 and 2"));
  EXPECT_THAT(problem_of(job, differing), HasSubstr("'step' on ranks 1 and 2"));

  EXPECT_THAT(aloud, ::testing::ElementsAre(
                         AllOf(HasSubstr(target().string()), HasSubstr("'step' on ranks 1 and 2"))));
}

TEST_F(ValuesOfRanks, AreNamedFewOfMany) {
  JointJob::Options options(7);
  options.fan_out = 2;
  JointJob job{options};

  const std::string problem = problem_of(job, [](std::uint32_t rank) {
    Tree tree;
    for (int i = 0; i < 9; ++i) {
      tree[fmt::format("a{}", i)] = i < 2 ? 0 : static_cast<int>(rank);
    }
    return tree;
  });

  EXPECT_THAT(problem, AllOf(HasSubstr(": 'a2' on ranks 1, 2, 3, 4 and 2 more; 'a3'"),
                             HasSubstr("'a5' on ranks 1, 2, 3, 4 and 2 more; and further ones")));
}

TEST_F(ValuesOfRanks, AreTheSameWhateverTheirMemory) {
  JointJob job{JointJob::Options(2)};
  const Array columns = Array::zeros({4, 8}, DType::int32).part(Box({0, 0}, {4, 2}));

  EXPECT_THAT(problem_of(job,
                         [&](std::uint32_t rank) {
                           return Tree{{"a", rank == 0 ? columns : columns.clone()}};
                         }),
              IsEmpty());
}

}  // namespace
}  // namespace cairn
