// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/assignment_plan.hpp"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <string>
#include <tuple>

#include <gmock/gmock.h>

#include "sharding/given_parts.hpp"
#include "sharding/held_arrays.hpp"
#include "sharding/plans.hpp"
#include "support/fails.hpp"

namespace cairn::sharding {
namespace {

using ::testing::AllOf;
using testing::check_plan;
using testing::Dice;
using testing::Fails;
using testing::floats;
using ::testing::HasSubstr;
using testing::kMegatron;
using testing::random_arrays;
using testing::Ranks;
using testing::writers_of;

double busiest_by_mean(const AssignmentPlan& plan) {
  const auto bytes = plan.bytes_by_rank();
  const double sum = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  return static_cast<double>(*std::max_element(bytes.begin(), bytes.end())) /
         (sum / static_cast<double>(bytes.size()));
}

TEST(AssignmentPlan, SaysWhetherAnythingIsHeldTwice) {
  const Mesh mesh({2, 2}, {"data", "model"});
  const PlannedArray once = {"once", DType::int8, {8}, Sharding::of_spec(mesh, {{"data", "model"}})};
  const PlannedArray twice = {"twice", DType::int8, {8}, Sharding::of_spec(mesh, {{"model"}})};

  EXPECT_TRUE(AssignmentPlan({once}, 4).has_no_copies());
  EXPECT_FALSE(AssignmentPlan({once, twice}, 4).has_no_copies());
  EXPECT_TRUE(AssignmentPlan({}, 4).has_no_copies());
}

TEST(AssignmentPlan, WritesAnArrayWithTwoNamesOnce) {
  const PlannedArray first = {"first", DType::int8, {8}, Sharding::replicated(2)};
  PlannedArray other = {"other", DType::int8, {8}, Sharding::replicated(2)};
  other.same_as = 0;
  const PlannedArray last = {"last", DType::int8, {8}, Sharding::replicated(2)};

  const AssignmentPlan plan({first, other, last}, 2);

  EXPECT_TRUE(writers_of(plan, "other").empty());
  EXPECT_EQ(plan.bytes_by_rank()[0] + plan.bytes_by_rank()[1], 16u);
}

// ---- Megatron's table: eight ranks, two by tensor parallelism (inner), four by data parallelism.

TEST(AssignmentPlanBalanced, GivesCopiesAsMegatronDoesInTheWorld) {
  const Sharding by_tp = Sharding::of_spec(kMegatron, {{"tp"}});
  const Sharding everywhere = Sharding::replicated(8);
  const AssignmentPlan plan(
      {floats("key_TP_repl1", 20, by_tp), floats("key_TP_repl2", 20, by_tp),
       floats("keyB", 160, Sharding::of_spec(kMegatron, {{"dp", "tp"}})), floats("keyC", 100, everywhere),
       floats("keyE", 100, everywhere), floats("keyD", 1000, everywhere)},
      8, ReplicaChoice::balanced);

  EXPECT_EQ(writers_of(plan, "keyB"), (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(writers_of(plan, "key_TP_repl1"), (Ranks{0, 1}));
  EXPECT_EQ(writers_of(plan, "key_TP_repl2"), (Ranks{2, 3}));
  EXPECT_EQ(writers_of(plan, "keyD"), Ranks{4});
  EXPECT_EQ(writers_of(plan, "keyC"), Ranks{5});
  EXPECT_EQ(writers_of(plan, "keyE"), Ranks{6});
}

/// What the four ranks of one group for data parallelism hold.
std::vector<PlannedArray> group(std::uint32_t turn_of_whole) {
  const Sharding copies = Sharding::replicated(4);
  return {floats("key_TP_repl1", 10, copies),
          floats("key_TP_repl2", 10, copies),
          floats("keyB", 80, Sharding::of_spec(Mesh({4}, {"dp"}), {{"dp"}})),
          floats("keyC", 100, copies, turn_of_whole),
          floats("keyE", 100, copies, turn_of_whole),
          floats("keyD", 1000, copies, turn_of_whole)};
}

TEST(AssignmentPlanBalanced, GivesCopiesAsMegatronDoesInAGroup) {
  const AssignmentPlan plan(group(0), 4, ReplicaChoice::balanced);

  EXPECT_EQ(writers_of(plan, "keyB"), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(writers_of(plan, "keyD"), Ranks{0});
  EXPECT_EQ(writers_of(plan, "keyC"), Ranks{1});
  EXPECT_EQ(writers_of(plan, "keyE"), Ranks{2});
  EXPECT_EQ(writers_of(plan, "key_TP_repl1"), Ranks{3});
  EXPECT_EQ(writers_of(plan, "key_TP_repl2"), Ranks{3});
}

TEST(AssignmentPlanBalanced, TakesLaterTurnsLaterAsMegatronDoesAcrossGroups) {
  const AssignmentPlan plan(group(1), 4, ReplicaChoice::balanced);

  EXPECT_EQ(writers_of(plan, "key_TP_repl1"), Ranks{0});
  EXPECT_EQ(writers_of(plan, "key_TP_repl2"), Ranks{1});
  EXPECT_EQ(writers_of(plan, "keyD"), Ranks{2});
  EXPECT_EQ(writers_of(plan, "keyC"), Ranks{3});
  EXPECT_EQ(writers_of(plan, "keyE"), Ranks{0});
}

TEST(AssignmentPlanMain, LeavesTheChoiceToTheCaller) {
  const Box whole = Box::whole({4});
  const AssignmentPlan plan({floats("a", 4, Sharding::of_boxes({{{whole, 1}}, {{whole, 0}}}))}, 2,
                            ReplicaChoice::main);

  EXPECT_EQ(writers_of(plan, "a"), Ranks{1});
}

// ---- Balance.

TEST(AssignmentPlan, SplitsOneArrayThatAllHold) {
  const std::vector<PlannedArray> arrays = {
      {"w", DType::float32, {1 << 15, 1 << 14}, Sharding::replicated(4)}};

  EXPECT_DOUBLE_EQ(busiest_by_mean(AssignmentPlan(arrays, 4)), 1.0);
  EXPECT_DOUBLE_EQ(busiest_by_mean(AssignmentPlan(arrays, 4, ReplicaChoice::balanced)), 4.0);
  EXPECT_EQ(AssignmentPlan(arrays, 4).assignments(2),
            (std::vector<WriteAssignment>{{0, Box({1 << 14, 0}, {1 << 13, 1 << 14})}}));
}

TEST(AssignmentPlan, GivesRankZeroLessWhereItWritesMoreBesides) {
  const std::vector<PlannedArray> arrays = {{"w", DType::int8, {3000}, Sharding::replicated(4)}};

  PlanOptions options;
  options.alone_bytes = {1000};

  const AssignmentPlan plan(arrays, 4, options);
  options.alone_bytes = {4000};
  const AssignmentPlan full(arrays, 4, options);
  options.alone_bytes = {0, 3000, 0, 2000};
  const AssignmentPlan others(arrays, 4, options);

  EXPECT_THAT(plan.bytes_by_rank(), ::testing::ElementsAre(1000, 1000, 1000, 1000));
  EXPECT_THAT(full.bytes_by_rank(), ::testing::ElementsAre(4000, 1000, 1000, 1000));
  EXPECT_TRUE(full.assignments(0).empty());
  EXPECT_THAT(others.bytes_by_rank(), ::testing::ElementsAre(1500, 3000, 1500, 2000));
}

TEST(AssignmentPlan, SplitsInAsFewBoxesAsItCan) {
  const std::vector<PlannedArray> arrays = {{"bias", DType::float32, {128}, Sharding::replicated(3)},
                                            {"weights", DType::float32, {64, 128}, Sharding::replicated(3)}};

  const AssignmentPlan plan(arrays, 3);

  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const std::vector<WriteAssignment> assignments = plan.assignments(rank);
    EXPECT_EQ(std::count_if(assignments.begin(), assignments.end(),
                            [](const WriteAssignment& assignment) { return assignment.array == 1; }),
              1);
  }
  EXPECT_LE(busiest_by_mean(plan), 1.05);
}

TEST(AssignmentPlan, SplitsArraysOfFewRowsDeeper) {
  const AssignmentPlan plan({{"w", DType::float32, {2, 3, 1000}, Sharding::replicated(7)}}, 7);

  EXPECT_LE(busiest_by_mean(plan), 1.05);
}

std::vector<PlannedArray> transformer() {
  const Mesh mesh({4, 2}, {"data", "model"});
  const Sharding columns = Sharding::of_spec(mesh, {{}, {"model"}});
  const Sharding rows = Sharding::of_spec(mesh, {{"model"}});
  const Sharding all = Sharding::replicated(8);
  std::vector<PlannedArray> arrays = {{"embedding", DType::bfloat16, {128256, 4096}, all},
                                      {"head", DType::bfloat16, {4096, 128256}, columns}};
  for (int layer = 0; arrays.size() < 450; ++layer) {
    const std::string prefix = "layers/" + std::to_string(layer) + "/";
    arrays.push_back({prefix + "norm1", DType::float32, {4096}, all});
    arrays.push_back({prefix + "norm2", DType::float32, {4096}, all});
    arrays.push_back({prefix + "qkv", DType::bfloat16, {4096, 12288}, columns});
    arrays.push_back({prefix + "out", DType::bfloat16, {4096, 4096}, rows});
    arrays.push_back({prefix + "up", DType::bfloat16, {4096, 14336}, columns});
    arrays.push_back({prefix + "gate", DType::bfloat16, {4096, 14336}, all});
    arrays.push_back({prefix + "down", DType::bfloat16, {14336, 4096}, rows});
  }
  arrays.resize(450, arrays[0]);
  return arrays;
}

TEST(AssignmentPlan, BalancesATransformer) {
  const AssignmentPlan plan(transformer(), 8);

  RecordProperty("busiest_by_mean_x1000", static_cast<int>(1000 * busiest_by_mean(plan)));
  EXPECT_LE(busiest_by_mean(plan), 1.05);
}

TEST(AssignmentPlan, StaysWithinItsToleranceWhereAllIsReplicated) {
  Dice dice(8);
  for (int i = 0; i < 200; ++i) {
    const auto ranks = static_cast<std::uint32_t>(2 + dice.below(15));
    std::vector<PlannedArray> arrays;
    for (std::size_t count = 1 + dice.below(40); arrays.size() < count;) {
      const Shape shape = {1 + dice.below(40), 1 + dice.below(300), 64};
      arrays.push_back({std::to_string(arrays.size()), DType::float32, shape, Sharding::replicated(ranks)});
    }
    ASSERT_LE(busiest_by_mean(AssignmentPlan(std::move(arrays), ranks)), 1.05) << i;
  }
}

// ---- Many ranks.

std::size_t piece_count(const AssignmentPlan& plan) {
  std::size_t count = 0;
  for (std::uint32_t rank = 0; rank < plan.ranks(); ++rank) {
    count += plan.assignments(rank).size();
  }
  return count;
}

/// The slow model would take too long for large arrays.
std::uint64_t written_bytes(const AssignmentPlan& plan) {
  std::uint64_t bytes = 0;
  for (std::uint32_t rank = 0; rank < plan.ranks(); ++rank) {
    for (const WriteAssignment& assignment : plan.assignments(rank)) {
      bytes += *byte_count(plan.arrays()[assignment.array].dtype, assignment.box.extents());
    }
  }
  return bytes;
}

struct Job {
  std::uint32_t ranks = 0;
  std::size_t arrays = 0;
};

void PrintTo(const Job& job, std::ostream* out) {
  *out << job.ranks << "_ranks_" << job.arrays << "_arrays";
}

class AssignmentPlanOfManyRanks : public ::testing::TestWithParam<Job> {};

TEST_P(AssignmentPlanOfManyRanks, BalancesReplicatedArraysInFewPieces) {
  const auto [ranks, count] = GetParam();
  std::vector<PlannedArray> arrays;
  for (std::size_t i = 0; i < count; ++i) {
    arrays.push_back({"a" + std::to_string(i), DType::float32, {100'000, 128}, Sharding::replicated(ranks)});
  }

  const AssignmentPlan plan(std::move(arrays), ranks);

  EXPECT_LE(busiest_by_mean(plan), 1.05);
  EXPECT_LE(piece_count(plan), 2 * (ranks + count));
  EXPECT_EQ(written_bytes(plan), count * 100'000 * 128 * 4);
}

INSTANTIATE_TEST_SUITE_P(, AssignmentPlanOfManyRanks,
                         ::testing::Values(Job{512, 255}, Job{512, 256}, Job{512, 300}, Job{1000, 100},
                                           Job{1000, 500}, Job{1000, 1001}, Job{4000, 500}, Job{10'000, 1},
                                           Job{10'000, 500}),
                         ::testing::PrintToStringParamName());

/// 481 arrays, the sharded ones over `model` ranks, and all of them along the others.
std::vector<PlannedArray> large_transformer(std::uint32_t ranks, std::uint32_t model) {
  const Mesh mesh({ranks / model, model}, {"data", "model"});
  const Sharding rows = Sharding::of_spec(mesh, {{"model"}});
  const Sharding columns = Sharding::of_spec(mesh, {{}, {"model"}});
  const Sharding all = Sharding::of_spec(mesh, {});
  const std::uint64_t width = 4096;
  std::vector<PlannedArray> arrays = {{"embedding", DType::bfloat16, {50304, width}, rows}};
  for (int layer = 0; layer < 80; ++layer) {
    const std::string prefix = "layers/" + std::to_string(layer) + "/";
    arrays.push_back({prefix + "qkv", DType::bfloat16, {3 * width, width}, rows});
    arrays.push_back({prefix + "out", DType::bfloat16, {width, width}, columns});
    arrays.push_back({prefix + "up", DType::bfloat16, {4 * width, width}, rows});
    arrays.push_back({prefix + "down", DType::bfloat16, {width, 4 * width}, columns});
    arrays.push_back({prefix + "norm1", DType::bfloat16, {width}, all});
    arrays.push_back({prefix + "norm2", DType::bfloat16, {width}, all});
  }
  return arrays;
}

class AssignmentPlanOfATransformer
    : public ::testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t>> {};

TEST_P(AssignmentPlanOfATransformer, IsBalancedInFewPieces) {
  const auto [ranks, model] = GetParam();
  const AssignmentPlan plan(large_transformer(ranks, model), ranks);

  EXPECT_LE(busiest_by_mean(plan), 1.05);
  EXPECT_LE(piece_count(plan), 2 * (ranks + plan.arrays().size() * model));
}

INSTANTIATE_TEST_SUITE_P(, AssignmentPlanOfATransformer,
                         ::testing::Combine(::testing::Values(256U, 1024U, 4096U),
                                            ::testing::Values(1U, 8U)));

TEST(AssignmentPlan, LeavesRoomWhereHoldersOfOneArrayHoldOthersToo) {
  // Columns of the mesh hold copies of the one kind, rows of the other. They are cut, or given whole and cut at last.
  const Mesh mesh({16, 16}, {"a", "b"});
  for (const std::size_t count : {1, 40}) {
    std::vector<PlannedArray> arrays;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(i);
      arrays.push_back({"a" + number, DType::float32, {1600, 100}, Sharding::of_spec(mesh, {{"a"}})});
      arrays.push_back({"b" + number, DType::float32, {1600, 100}, Sharding::of_spec(mesh, {{"b"}})});
    }
    EXPECT_LE(busiest_by_mean(AssignmentPlan(std::move(arrays), 256)), 1.05) << count;
  }
}

TEST(AssignmentPlan, IsBalancedOnAnyMesh) {
  Dice dice(12);
  for (int i = 0; i < 100; ++i) {
    const Mesh mesh = testing::random_mesh(dice);
    std::vector<PlannedArray> arrays;
    for (std::size_t count = 1 + dice.below(60); arrays.size() < count;) {
      // Whole multiples of the ranks, so that it is not the layout that makes some hold more.
      const Shape shape = {mesh.size() * (1 + dice.below(40)), mesh.size() * (1 + dice.below(40))};
      arrays.push_back({std::to_string(arrays.size()), DType::float32, shape,
                        Sharding::of_spec(mesh, testing::random_spec(dice, mesh, 2))});
    }
    ASSERT_LE(busiest_by_mean(AssignmentPlan(std::move(arrays), mesh.rank_count())), 1.05) << i;
  }
}

TEST(GivenParts, LooksAtEachOnceForAllRanks) {
  using sharding_detail::GivenParts;
  constexpr std::uint32_t kRanks = 10'000;
  GivenParts given;
  for (std::uint32_t piece = 0; piece < 3 * kRanks; ++piece) {
    given.add({piece * 7919 % kRanks, piece / 500, 0, piece});
  }
  given.finish();

  std::size_t looked_at = 0;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (const GivenParts::Given& one : given.of(rank)) {
      ASSERT_EQ(one.rank, rank);
      ++looked_at;
    }
  }

  EXPECT_EQ(looked_at, 3 * kRanks);
}

// ---- Against a slow model.

TEST(AssignmentPlan, WritesEveryElementOnce) {
  Dice dice(9);
  for (int i = 0; i < 150; ++i) {
    std::uint32_t ranks = 0;
    const std::vector<PlannedArray> arrays = random_arrays(dice, ranks);
    for (const ReplicaChoice choice :
         {ReplicaChoice::main, ReplicaChoice::balanced, ReplicaChoice::balanced_and_split}) {
      ASSERT_NO_FATAL_FAILURE(check_plan(AssignmentPlan(arrays, ranks, choice)));
    }
  }
}

TEST(AssignmentPlan, WritesEveryElementOnceWhereManyHoldMany) {
  Dice dice(11);
  for (int i = 0; i < 10; ++i) {
    const auto ranks = static_cast<std::uint32_t>(20 + dice.below(100));
    std::vector<PlannedArray> arrays;
    for (std::size_t count = 1 + dice.below(2 * ranks); arrays.size() < count;) {
      arrays.push_back({"a" + std::to_string(arrays.size()), DType::float32, testing::random_shape(dice, 300),
                        Sharding::replicated(ranks)});
    }
    ASSERT_NO_FATAL_FAILURE(check_plan(AssignmentPlan(std::move(arrays), ranks)));
  }
}

TEST(AssignmentPlan, IsTheSameForTablesAndRules) {
  Dice dice(10);
  for (int i = 0; i < 100; ++i) {
    std::uint32_t ranks = 0;
    const std::vector<PlannedArray> arrays = random_arrays(dice, ranks);
    std::vector<PlannedArray> tables = arrays;
    for (PlannedArray& array : tables) {
      array.sharding = array.sharding.as_boxes(array.shape);
    }
    const AssignmentPlan by_rule(arrays, ranks);
    const AssignmentPlan by_table(tables, ranks);
    // Strided rules count the boxes of a rank as one part, tables as several: then only the elements are the same.
    ASSERT_NO_FATAL_FAILURE(check_plan(by_table));
    if (std::all_of(arrays.begin(), arrays.end(), [](const PlannedArray& array) {
          return array.sharding.kind() == Sharding::Kind::replicated ||
                 array.sharding.kind() == Sharding::Kind::spec;
        })) {
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(by_rule.assignments(rank), by_table.assignments(rank));
      }
    }
  }
}

// ---- Bad input.

TEST(AssignmentPlan, RefusesWhatDoesNotFitTheJob) {
  const auto fails = [](Errc code, const char* why) { return Fails(code, HasSubstr(why)); };

  EXPECT_THAT([] { return AssignmentPlan({}, 0); }, fails(Errc::invalid_argument, "world size 0"));
  EXPECT_THAT([] { return AssignmentPlan({}, 2).assignments(2); },
              fails(Errc::invalid_argument, "no rank 2 among 2"));
  EXPECT_THAT([] { return AssignmentPlan({floats("w", 4, Sharding::replicated(3))}, 2); },
              fails(Errc::invalid_argument, "'w': is divided among 3 ranks in a job of 2"));
  EXPECT_THAT(
      [] {
        return AssignmentPlan(
            {floats("w", 4, Sharding::replicated(1)), floats("w", 4, Sharding::replicated(1))}, 1);
      },
      fails(Errc::invalid_argument, "two arrays are called 'w'"));
  EXPECT_THAT(
      [] {
        return AssignmentPlan({{"w", DType::float32, Shape{}, Sharding::of_spec(Mesh({2}, {"a"}), {{"a"}})}},
                              2);
      },
      fails(Errc::invalid_argument, "'w': sharding: cuts dimension 0"));
  EXPECT_THAT(
      [] {
        return AssignmentPlan({{"w", DType::float4, {3}, Sharding::replicated(1)}}, 1);
      },
      fails(Errc::invalid_argument, "'w'"));
}

AssignmentPlan plan_of(std::vector<std::vector<PlacedBox>> by_rank,
                       ReplicaChoice choice = ReplicaChoice::balanced) {
  const auto ranks = static_cast<std::uint32_t>(by_rank.size());
  return AssignmentPlan({floats("w", 4, Sharding::of_boxes(by_rank))}, ranks, choice);
}

TEST(AssignmentPlan, NamesArrayBoxesAndRanksOfWhatIsWrong) {
  const Box front({0}, {2});
  const Box back({2}, {2});

  EXPECT_THAT(
      [&] {
        return plan_of({{{front, 0}}, {{Box({1}, {3}), 0}}});
      },
      Fails(Errc::overlapping_shards, HasSubstr("'w': boxes [0:2] of rank 0 and [1:4] of rank 1 overlap")));
  EXPECT_THAT(
      [&] {
        return plan_of({{{front, 0}}, {{Box({3}, {1}), 0}}});
      },
      Fails(Errc::incomplete_shards, AllOf(HasSubstr("'w': 3 of the 4"), HasSubstr("[2:3] is not"))));
  EXPECT_THAT(
      [&] {
        return plan_of({{{front, 0}}, {{front, 0}, {back, 0}}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'w': ranks 0 and 1 both hold box [0:2] as main replica")));
  EXPECT_THAT(
      [&] {
        return plan_of({{{front, 0}}, {{back, 1}, {back, 1}}});
      },
      Fails(Errc::overlapping_shards, HasSubstr("'w': rank 1 holds box [2:4] twice as replica 1")));
  EXPECT_THAT(
      [&] {
        return plan_of({{{front, 0}, {back, 0}, {back, 2}}, {{back, 2}}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'w': ranks 0 and 1 both hold box [2:4] as replica 2")));
  EXPECT_THAT(
      [&] {
        return plan_of({{{front, 0}}, {{Box({2}, {3}), 0}}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'w': box [2:5] of rank 1 is not within shape [4]")));
  EXPECT_THAT(
      [&] {
        return plan_of({{{front, 0}}, {{back, 1}}}, ReplicaChoice::main);
      },
      Fails(Errc::incomplete_shards,
            HasSubstr("'w': no rank holds box [2:4] of [4] as main replica; rank 1 holds it as another")));
  EXPECT_THAT(
      [] {
        return AssignmentPlan({floats("w", 4, Sharding::of_grid({2}, {1, 1}))}, 2);
      },
      Fails(Errc::incomplete_shards, HasSubstr("'w': 2 of the 4 elements of [0:4] are there; [0:2] is not; "
                                               "next to it: [2:4] of ranks 0 and 1")));
}

TEST(AssignmentPlan, WritesOnceWhatARankHoldsAsSeveralReplicas) {
  const Box front({0}, {2});
  const Box back({2}, {2});

  const AssignmentPlan alone = plan_of({{{front, 0}}, {{back, 0}, {back, 1}}});
  const AssignmentPlan copied =
      plan_of({{{front, 0}, {back, 3}, {back, 0}}, {{back, 1}, {back, 2}}}, ReplicaChoice::main);

  EXPECT_TRUE(alone.has_no_copies());
  EXPECT_EQ(alone.assignments(1), (std::vector<WriteAssignment>{{0, back}}));
  EXPECT_EQ(copied.assignments(0), (std::vector<WriteAssignment>{{0, front}, {0, back}}));
  EXPECT_TRUE(copied.assignments(1).empty());
}

// ---- What ranks say they hold.

TEST(HeldArrays, BecomeTables) {
  HeldArrays held;
  held.add(0, "a", DType::float32, {4}, std::vector<PlacedBox>{{Box({0}, {2}), 0}});
  held.add(2, "b", DType::int8, {3}, std::vector<PlacedBox>{{Box({0}, {3}), 0}});
  held.add(2, "a", DType::float32, {4}, std::vector<PlacedBox>{{Box({2}, {2}), 0}});

  const std::vector<PlannedArray> arrays = held.finish(4);

  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].name, "a");
  EXPECT_EQ(arrays[0].sharding, Sharding::of_boxes({{{Box({0}, {2}), 0}}, {}, {{Box({2}, {2}), 0}}, {}}));
  EXPECT_EQ(arrays[1].dtype, DType::int8);
  ASSERT_NO_FATAL_FAILURE(check_plan(AssignmentPlan(arrays, 4)));
}

TEST(HeldArrays, NameTheRanksThatDiffer) {
  HeldArrays held;
  held.add(1, "w", DType::float32, {4}, {});

  EXPECT_THAT([&] { held.add(3, "w", DType::float32, {5}, {}); },
              Fails(Errc::shape_mismatch, HasSubstr("'w': rank 1 has shape [4] and rank 3 has [5]")));
  EXPECT_THAT([&] { held.add(3, "w", DType::int32, {4}, {}); },
              Fails(Errc::dtype_mismatch, HasSubstr("'w': rank 1 has F32 and rank 3 has I32")));
  EXPECT_THAT(
      [&] {
        held.add(3, "w", DType::float32, {4}, std::vector<PlacedBox>{{Box({3}, {2}), 0}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'w': box [3:5] of rank 3 is not within shape [4]")));
  EXPECT_THAT([&] { held.add(0, "w", DType::float32, {4}, {}); },
              Fails(Errc::invalid_argument, HasSubstr("rank 0 comes after rank 3")));
  EXPECT_THAT([&] { return held.finish(3); },
              Fails(Errc::invalid_argument, HasSubstr("rank 3 of a job of 3 ranks")));
}

}  // namespace
}  // namespace cairn::sharding
