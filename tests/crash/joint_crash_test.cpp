// SPDX-License-Identifier: Apache-2.0
// Several ranks save one checkpoint, and something happens to one of them.
#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "crash/joint_scenes.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"

namespace cairn::crash {
namespace {

class MishapOfARank : public ::testing::TestWithParam<std::string> {};

TEST_P(MishapOfARank, LeavesTheOldOrTheNewCheckpointAndVerdictsThatAgree) {
  EnumerationOptions options;
  options.seed = testing::first_number();
  options.states =
      testing::share_of(testing::kHasSanitizer ? 50 : 120);  // A thread for each rank, each time.

  const EnumerationReport report = enumerate(*find_mishap_scene(GetParam()), options);

  EXPECT_EQ(report.failures, 0u) << report.first_failure;
}

std::vector<std::string> mishap_names() {
  std::vector<std::string> names;
  for (const MishapScene& each : mishap_scenes()) {
    names.push_back(each.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Scenes, MishapOfARank, ::testing::ValuesIn(mishap_names()), [](const auto& tested) {
  std::string name = tested.param;
  std::replace_if(
      name.begin(), name.end(), [](char each) { return std::isalnum(static_cast<unsigned char>(each)) == 0; },
      '_');
  return name;
});

/// What rank 1 says, when rank 0 ends before each of the calls.
std::set<RankVerdict> verdicts_of_rank_1(const std::string& scene_name) {
  const MishapScene& scene = *find_mishap_scene(scene_name);
  std::set<RankVerdict> verdicts;
  JointPlan plan = scene.plan;
  for (plan.call = 1; plan.call <= scene.calls(plan.seed); plan.call += 3) {
    verdicts.insert(scene.play(plan).verdicts[1]);
  }
  return verdicts;
}

TEST(RankThatIsLeftAlone, SaysAbortedOrCommitted) {
  const std::set<RankVerdict> sure{RankVerdict::committed, RankVerdict::aborted};

  EXPECT_EQ(verdicts_of_rank_1("save by 2 ranks, rank 0 is killed"), sure);
  EXPECT_EQ(verdicts_of_rank_1("overwrite by exchange by 2 ranks, rank 0 is not heard"), sure);
}

TEST(RankThatIsLeftAlone, MaySayUnknownInMarkerMode) {
  EXPECT_TRUE(
      verdicts_of_rank_1("save by marker by 2 ranks, rank 0 is killed").contains(RankVerdict::unknown));
}

TEST(MishapScenes, GiveTheSameStatesForTheSameSeed) {
  EnumerationOptions options;
  options.states = 300;
  const MishapScene& scene = *find_mishap_scene("overwrite by exchange by 3 ranks, rank 0 is not heard");

  EXPECT_EQ(enumerate(scene, options).states, enumerate(scene, options).states);
}

}  // namespace
}  // namespace cairn::crash
