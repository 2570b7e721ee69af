// SPDX-License-Identifier: Apache-2.0
// Several ranks save one checkpoint, and something happens to one of them.
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "crash/joint_scenes.hpp"
#include "support/number_from.hpp"

namespace cairn::crash {
namespace {

class MishapOfARank : public ::testing::TestWithParam<std::string> {};

TEST_P(MishapOfARank, LeavesTheOldOrTheNewCheckpointAndVerdictsThatAgree) {
  constexpr std::uint64_t kStride = 8;
  EnumerationOptions options;
  options.states = 200;

  const EnumerationReport report = enumerate(
      mishap_scene(GetParam()), options, static_cast<int>(testing::number_from("CAIRN_CRASH_STRIDE", kStride)));

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

}  // namespace
}  // namespace cairn::crash
