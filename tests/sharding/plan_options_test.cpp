// SPDX-License-Identifier: Apache-2.0
// Plans whose options say more than which replica writes: main replicas that have all elements, groups of ranks.
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/sharding/assignment_plan.hpp"

#include "sharding/plans.hpp"
#include "support/fails.hpp"

namespace cairn::sharding {
namespace {

using testing::check_plan;
using testing::Dice;
using testing::Fails;
using testing::floats;
using ::testing::HasSubstr;
using testing::kMegatron;
using testing::random_arrays;
using testing::Ranks;
using testing::writers_of;

// ---- Main replicas that have all elements.

PlanOptions covered_by_main(ReplicaChoice choice) {
  PlanOptions options = choice;
  options.is_covered_by_main = true;
  return options;
}

AssignmentPlan covered_plan(std::vector<std::vector<PlacedBox>> by_rank,
                            ReplicaChoice choice = ReplicaChoice::balanced) {
  const auto ranks = static_cast<std::uint32_t>(by_rank.size());
  return AssignmentPlan({floats("w", 4, Sharding::of_boxes(by_rank))}, ranks, covered_by_main(choice));
}

TEST(AssignmentPlanCoveredByMain, LeavesOutCopiesThatAreCutOtherwise) {
  const Box front({0}, {2});
  const Box back({2}, {2});
  for (const ReplicaChoice choice :
       {ReplicaChoice::main, ReplicaChoice::balanced, ReplicaChoice::balanced_and_split}) {
    const AssignmentPlan plan =
        covered_plan({{{front, 0}}, {{Box({0}, {3}), 1}}, {{back, 0}}, {{Box({3}, {1}), 1}}}, choice);

    EXPECT_EQ(plan.assignments(0), (std::vector<WriteAssignment>{{0, front}}));
    EXPECT_TRUE(plan.assignments(1).empty());
    EXPECT_EQ(plan.assignments(2), (std::vector<WriteAssignment>{{0, back}}));
    EXPECT_TRUE(plan.assignments(3).empty());
    EXPECT_FALSE(plan.has_no_copies());
  }
}

TEST(AssignmentPlanCoveredByMain, CountsCopiesWhoseBoxIsThatOfAMainOne) {
  const Box front({0}, {2});
  const Box back({2}, {2});

  const AssignmentPlan plan = covered_plan({{{front, 0}, {back, 0}}, {{back, 7}}, {{back, 7}}});

  EXPECT_EQ(plan.assignments(0), (std::vector<WriteAssignment>{{0, front}}));
  EXPECT_EQ(plan.assignments(1), (std::vector<WriteAssignment>{{0, back}}));
}

TEST(AssignmentPlanCoveredByMain, NamesBoxAndRanksOfWhatHasNoMainReplica) {
  const Box front({0}, {2});
  const Box back({2}, {2});

  EXPECT_THAT(
      [&] {
        return covered_plan({{{front, 0}}, {{back, 1}}, {{back, 2}}});
      },
      Fails(Errc::incomplete_shards,
            HasSubstr(
                "'w': no rank holds box [2:4] of [4] as main replica; ranks 1 and 2 hold it as another")));
  EXPECT_THAT(
      [&] {
        return covered_plan({{{front, 0}}, {{Box({1}, {3}), 1}}});
      },
      Fails(Errc::incomplete_shards, HasSubstr("no rank holds box [1:4] of [4] as main replica; rank 1")));
  EXPECT_THAT(
      [&] {
        return covered_plan({{{Box({0}, {4}), 1}}, {}});
      },
      Fails(Errc::incomplete_shards, HasSubstr("no rank holds box [0:4] of [4] as main replica; rank 0")));
  EXPECT_THAT(
      [&] {
        return covered_plan({{{front, 0}}, {{Box({1}, {1}), 1}}});
      },
      Fails(Errc::incomplete_shards, HasSubstr("'w': 2 of the 4 elements of [0:4] are there")));
}

TEST(AssignmentPlanCoveredByMain, NamesMainReplicasThatAreThereTwice) {
  const Box front({0}, {2});
  const Box back({2}, {2});

  EXPECT_THAT(
      [&] {
        return covered_plan({{{front, 0}}, {{front, 0}, {back, 0}}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'w': ranks 0 and 1 both hold box [0:2] as main replica")));
  EXPECT_THAT(
      [&] {
        return covered_plan({{{front, 0}}, {{Box({1}, {3}), 0}}});
      },
      Fails(Errc::overlapping_shards, HasSubstr("boxes [0:2] of rank 0 and [1:4] of rank 1 overlap")));
}

TEST(AssignmentPlanCoveredByMain, IsTheSameForRulesWhichHaveAllMainReplicas) {
  Dice dice(14);
  for (int i = 0; i < 50; ++i) {
    std::uint32_t ranks = 0;
    std::vector<PlannedArray> arrays = random_arrays(dice, ranks);
    const AssignmentPlan plain(arrays, ranks);
    const AssignmentPlan covered(arrays, ranks, covered_by_main(ReplicaChoice::balanced_and_split));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(covered.assignments(rank), plain.assignments(rank));
    }
  }
}

// ---- Groups of ranks.

TEST(AssignmentPlanOfGroups, ChoosesInTheGroupOfTheMainReplica) {
  // Megatron's table: each of two groups for data parallelism, one for each rank of tensor parallelism.
  const Sharding by_tp = Sharding::of_spec(kMegatron, {{"tp"}});
  const Sharding everywhere = Sharding::replicated(8);
  PlanOptions options = ReplicaChoice::balanced;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    options.group_of_rank.push_back(rank % 2);
  }

  const AssignmentPlan plan(
      {floats("key_TP_repl1", 20, by_tp), floats("key_TP_repl2", 20, by_tp),
       floats("keyB", 160, Sharding::of_spec(kMegatron, {{"dp", "tp"}})), floats("keyC", 100, everywhere),
       floats("keyE", 100, everywhere), floats("keyD", 1000, everywhere)},
      8, options);

  EXPECT_EQ(writers_of(plan, "keyB"), (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(writers_of(plan, "keyD"), Ranks{0});
  EXPECT_EQ(writers_of(plan, "keyC"), Ranks{2});
  EXPECT_EQ(writers_of(plan, "keyE"), Ranks{4});
  EXPECT_EQ(writers_of(plan, "key_TP_repl1"), (Ranks{1, 6}));
  EXPECT_EQ(writers_of(plan, "key_TP_repl2"), (Ranks{3, 6}));
}

TEST(AssignmentPlanOfGroups, WritesEveryElementOnce) {
  Dice dice(15);
  for (int i = 0; i < 100; ++i) {
    std::uint32_t ranks = 0;
    const std::vector<PlannedArray> arrays = random_arrays(dice, ranks);
    PlanOptions options;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      options.group_of_rank.push_back(static_cast<std::uint32_t>(dice.below(3)));
    }
    ASSERT_NO_FATAL_FAILURE(check_plan(AssignmentPlan(arrays, ranks, options)));
  }
}

TEST(AssignmentPlanOfGroups, RefusesOptionsForAnotherJob) {
  PlanOptions groups;
  groups.group_of_rank = {0};
  PlanOptions loads;
  loads.alone_bytes = {1, 2, 3};

  for (const PlanOptions& options : {groups, loads}) {
    EXPECT_THAT([&] { return AssignmentPlan({}, 2, options); },
                Fails(Errc::invalid_argument, HasSubstr("job of 2")));
  }
}

}  // namespace
}  // namespace cairn::sharding
