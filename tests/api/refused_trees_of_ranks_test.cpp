// SPDX-License-Identifier: Apache-2.0
// Trees of several ranks that do not make one checkpoint: all ranks are told why.
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/sharding_options.hpp"

#include "api/trees_of_ranks.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::JointJob;
using testing::part_of;
using testing::RankEnd;
using testing::rows_of;
using testing::TreesOfRanks;

TEST_F(TreesOfRanks, NameTheElementsThatNobodyHolds) {
  expect_refused(
      [&](std::uint32_t rank) {
        return Tree{{"w", rank == 2 ? ShardedArray(whole_.shape(), whole_.dtype())
                                    : part_of(whole_, rows_of(4), rank)}};
      },
      AllOf(
          HasSubstr("'w': 90 of the 130 elements of [0:13, 0:10] are there; [8:12, 0:10] is not; next to it: "
                    "[4:8, 0:10] of rank 1, [12:13, 0:10] of rank 3"),
          of_all()));
}

TEST_F(TreesOfRanks, NameTheBoxesThatOverlap) {
  expect_refused(
      [&](std::uint32_t rank) {
        return Tree{{"w", rank == 2 ? part_of(whole_, rows_of(5), rank) : part_of(whole_, rows_of(4), rank)}};
      },
      AllOf(HasSubstr("'w': boxes [4:8, 0:10] of rank 1 and [6:9, 0:10] of rank 2 overlap in [6:8, 0:10]"),
            of_all()));
}

TEST_F(TreesOfRanks, NameARankThatHoldsAReplicaTwice) {
  const Box box = Box::whole(whole_.shape());
  expect_refused(
      [&](std::uint32_t rank) {
        return Tree{
            {"w", rank == 1
                      ? ShardedArray(whole_.shape(), whole_.dtype(), {{box, whole_, 2}, {box, whole_, 2}})
                      : ShardedArray(whole_.shape(), whole_.dtype(), {{box, whole_, rank + 10}})}};
      },
      AllOf(HasSubstr("'w'"), HasSubstr("rank 1 holds box [0:13, 0:10] twice as replica 2")));
}

TEST_F(TreesOfRanks, NameAReplicaThatIsThereTwice) {
  expect_refused(
      [&](std::uint32_t) {
        return Tree{
            {"w", ShardedArray(whole_.shape(), whole_.dtype(), {{Box::whole(whole_.shape()), whole_}})}};
      },
      AllOf(HasSubstr("'w'"), HasSubstr("as main replica")));
}

TEST_F(TreesOfRanks, NameAReplicaThatIsThereTwiceAlsoBehindAnother) {
  const Box box = Box::whole(whole_.shape());
  expect_refused(
      [&](std::uint32_t rank) {
        std::vector<Shard> shards = {{box, whole_, rank}};
        if (rank == 1) {
          shards.push_back({box, whole_, 3});
        }
        return Tree{{"w", ShardedArray(whole_.shape(), whole_.dtype(), std::move(shards))}};
      },
      AllOf(HasSubstr("'w'"), HasSubstr("ranks 1 and 3"), HasSubstr("replica 3")));
}

TEST_F(TreesOfRanks, TellRanksThatDiffer) {
  const Tree common = {{"step", 7}, {"w", part_of(whole_, rows_of(4), 0)}};
  const std::vector<std::pair<Tree, std::string>> others = {
      {{{"step", 7}, {"v", part_of(whole_, rows_of(4), 0)}}, "'v'"},
      {{{"step", 7.5}, {"w", part_of(whole_, rows_of(4), 0)}}, "'step': floating"},
      {{{"step", 7}, {"w", whole_}}, "'w': array of I32 [13, 10]"},
      {{{"step", 7}, {"w", ShardedArray({13, 11}, DType::int32)}}, "[13, 11]"},
      {{{"step", 7}, {"w", ShardedArray({13, 10}, DType::int8)}}, "of I8"},
      {{{"step", 7}}, "nothing more"},
      {{{"step", 7}, {"w", part_of(whole_, rows_of(4), 0)}, {"x", 1}}, "'x'"},
  };
  for (const auto& [other, words] : others) {
    expect_refused([&, &odd = other](std::uint32_t rank) { return rank == 2 ? odd : common; },
                   AllOf(HasSubstr("'state': the ranks do not save the same: ranks 0, 1 and 3 have "),
                         HasSubstr(", rank 2 has "), HasSubstr(words), of_all()));
  }
}

TEST_F(TreesOfRanks, TellRanksThatStoreAnArrayDifferently) {
  JointJob job{JointJob::Options(3)};
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         SaveOptions options;
         if (rank == 1) {
           options.handler_options.set(ArrayRules().add("w", DType::int64));
         }
         const Tree tree = {{"w", part_of(whole_, rows_of(3), static_cast<std::uint32_t>(rank))}};
         return save(target(), tree, options, job.context(rank));
       })) {
    EXPECT_THAT(
        end.text(),
        HasSubstr("rule 1 of ArrayRules: ranks 0 and 2 have none, rank 1 has 'the rule 'w', stored as I64'"));
  }
}

TEST_F(TreesOfRanks, TellRanksThatDifferWithoutShardedArrays) {
  expect_refused(
      [&](std::uint32_t rank) {
        return rank == 1 ? Tree{{"step", "7"}} : Tree{{"step", 7}};
      },
      AllOf(HasSubstr("'step': integer"), HasSubstr("rank 1 has 'step': string"), of_all()), 2);
}

}  // namespace
}  // namespace cairn
