// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/training/keep_policy.hpp"

#include "support/dice.hpp"
#include "training/histories.hpp"

namespace cairn {
namespace {

using testing::Dice;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::random_steps;
using testing::step_infos;
using ::testing::UnorderedElementsAre;

std::map<std::uint64_t, std::string> reasons(const RetentionPlan& plan) {
  std::map<std::uint64_t, std::string> reasons;
  for (const KeptStep& each : plan.kept) {
    reasons[each.step] = each.why;
  }
  return reasons;
}

std::vector<std::uint64_t> removed(const RetentionPlan& plan) {
  std::vector<std::uint64_t> steps;
  for (const StepInfo& each : plan.removed) {
    steps.push_back(each.step);
  }
  return steps;
}

TEST(Retention, SaysWhyEachStepIsKept) {
  std::vector<StepInfo> steps = step_infos({100, 150, 200, 250, 300});
  steps[1].is_pinned = true;
  StepUse use;
  use.in_use = {250};

  const RetentionPlan plan =
      plan_retention(keep::any_of({keep::latest(1), keep::every_steps(100)}), steps, {}, use);

  EXPECT_THAT(reasons(plan), ElementsAre(Pair(100, "every_steps(100)"), Pair(150, "pinned"),
                                         Pair(200, "every_steps(100)"), Pair(250, "being saved or loaded"),
                                         Pair(300, "latest(1), every_steps(100), newest")));
  EXPECT_THAT(removed(plan), IsEmpty());
}

TEST(Retention, APolicyThatKeepsNothingLeavesTheNewest) {
  EXPECT_THAT(removed(plan_retention(keep::latest(0), step_infos({1, 2, 3}), {})), ElementsAre(1, 2));
}

TEST(Retention, WhereTheNewestIsDamagedTheNewestSoundStaysToo) {
  StepUse use;
  use.damaged = {3, 4};

  const RetentionPlan plan = plan_retention(keep::latest(0), step_infos({1, 2, 3, 4}), {}, use);

  EXPECT_THAT(reasons(plan), ElementsAre(Pair(2, "newest that is sound"), Pair(4, "newest")));
}

TEST(Retention, WhatWasJustSavedStaysWhateverItsNumber) {
  StepUse use;
  use.recent = {1};

  EXPECT_THAT(reasons(plan_retention(keep::latest(1), step_infos({1, 2, 3}), {}, use)),
              ElementsAre(Pair(1, "just saved"), Pair(3, "latest(1), newest")));
}

TEST(Retention, DamagedStepsAreKeptAndDoNotCount) {
  std::vector<StepInfo> steps = step_infos({1, 2, 3, 4});
  steps[1].problem = "2/checkpoint.json: torn";
  steps[3].problem = "4/COMMIT: torn";

  const RetentionPlan plan = plan_retention(keep::latest(1), steps, {});

  EXPECT_THAT(reasons(plan), ElementsAre(Pair(2, HasSubstr("2/checkpoint.json: torn")),
                                         Pair(3, HasSubstr("newest")), Pair(4, HasSubstr("4/COMMIT: torn"))));
  EXPECT_THAT(removed(plan), ElementsAre(1));
}

TEST(Retention, OfNoStepsIsNothing) {
  const RetentionPlan plan = plan_retention(keep::latest(3), {}, {});

  EXPECT_THAT(plan.kept, IsEmpty());
  EXPECT_THAT(plan.removed, IsEmpty());
}

StepUse random_use(Dice& dice, const std::vector<StepInfo>& steps) {
  StepUse use;
  for (const StepInfo& each : steps) {
    for (std::set<std::uint64_t>* set : {&use.in_use, &use.damaged, &use.recent}) {
      if (dice.one_in(6)) {
        set->insert(each.step);
      }
    }
  }
  return use;
}

/// Returns whether a step may be removed, in the words of the documentation.
bool may_go(const std::vector<StepInfo>& steps, std::size_t index, const StepUse& use) {
  std::size_t newer = 0;
  std::size_t newer_and_sound = 0;
  for (std::size_t other = index + 1; other < steps.size() && newer_and_sound == 0; ++other) {
    newer += steps[other].problem.empty() ? 1 : 0;
    newer_and_sound += steps[other].problem.empty() && use.damaged.count(steps[other].step) == 0 ? 1 : 0;
  }
  const StepInfo& step = steps[index];
  const bool is_newest_sound = newer_and_sound == 0 && use.damaged.count(step.step) == 0;
  return newer > 0 && !is_newest_sound && step.problem.empty() && !step.is_pinned &&
         use.in_use.count(step.step) == 0 && use.recent.count(step.step) == 0;
}

TEST(Retention, RemovesExactlyWhatThePolicyDoesNotKeepAndMayGoOnRandomHistories) {
  Dice dice(3);
  for (int history = 0; history < 2000; ++history) {
    std::vector<StepInfo> steps =
        history % 250 == 0 ? random_steps(dice, testing::kThousands) : random_steps(dice);
    for (StepInfo& each : steps) {
      each.problem = dice.one_in(15) ? "torn" : "";
    }
    const StepUse use = random_use(dice, steps);
    const std::uint64_t kept_by_policy = 1 + dice.below(5);
    const KeepPolicy policy = keep::every_steps(kept_by_policy);

    const RetentionPlan plan = plan_retention(policy, steps, {}, use);

    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].step % kept_by_policy != 0 && may_go(steps, i, use)) {
        expected.push_back(steps[i].step);
      }
    }
    ASSERT_EQ(removed(plan), expected) << "history " << history;
    ASSERT_EQ(plan.kept.size() + plan.removed.size(), steps.size());
    ASSERT_TRUE(std::is_sorted(plan.kept.begin(), plan.kept.end(),
                               [](const KeptStep& a, const KeptStep& b) { return a.step < b.step; }));
  }
}

}  // namespace
}  // namespace cairn
