// SPDX-License-Identifier: Apache-2.0
// Every scene, in as many states as a quick test may look at.
#include <algorithm>
#include <cctype>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "crash/crash_enumerator.hpp"
#include "crash/scenes.hpp"
#include "support/sampling.hpp"

namespace cairn::crash {
namespace {

class CrashScene : public ::testing::TestWithParam<std::string> {};

TEST_P(CrashScene, LeavesTheOldOrTheNewCheckpoint) {
  EnumerationOptions options;
  options.seed = testing::first_number();
  options.states = testing::share_of(120);

  const EnumerationReport report = Enumerator(scene(GetParam()), options).run();

  EXPECT_EQ(report.failures, 0u) << report.first_failure;
}

/// Of the scenes that have several schedules, one.
std::vector<std::string> scene_names() {
  std::vector<std::string> names;
  for (const Scene& each : all_scenes()) {
    const bool is_first = each.name.find(", ") == std::string::npos || each.name.ends_with(", 0");
    if (is_first) {
      names.push_back(each.name);
    }
  }
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& tested) {
  std::string name = tested.param;
  std::replace_if(
      name.begin(), name.end(), [](char each) { return std::isalnum(static_cast<unsigned char>(each)) == 0; },
      '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Scenes, CrashScene, ::testing::ValuesIn(scene_names()), test_name);

EnumerationReport enumerate_save_without(Change change, const std::string& path) {
  class Omission final : public Saboteur {
   public:
    Omission(Change change, std::string path) : change_(change), path_(std::move(path)) {}

    int run(const Operation& operation, std::function<int()> effect) override {
      return operation.change == change_ && operation.path.ends_with(path_) ? 0 : effect();
    }

   private:
    Change change_;
    std::string path_;
  };
  EnumerationOptions options;
  options.states = 500;
  options.is_brief = true;
  options.sabotage = [change, path] { return std::make_unique<Omission>(change, path); };
  return Enumerator(scene("save"), options).run();
}

TEST(CrashEnumerator, NoticesDataThatIsNotSynced) {
  const EnumerationReport report = enumerate_save_without(Change::sync_data, "model/weights");

  EXPECT_THAT(report.first_failure, ::testing::HasSubstr("model/weights"));
}

TEST(CrashEnumerator, NoticesANameThatIsNotSynced) {
  const EnumerationReport report = enumerate_save_without(Change::sync, kRunPath);

  EXPECT_THAT(report.first_failure, ::testing::HasSubstr("'step' is lost"));
}

TEST(CrashEnumerator, NoticesWhatRecoveryCannotRemove) {
  const EnumerationReport report = enumerate_save_without(Change::sync_data, ".owner");

  EXPECT_THAT(report.first_failure, ::testing::HasSubstr("recovery leaves"));
}

TEST(CrashEnumerator, GivesTheSameStatesForTheSameSeed) {
  EnumerationOptions options;
  options.states = 300;

  const EnumerationReport first = Enumerator(scene("remove"), options).run();
  const EnumerationReport second = Enumerator(scene("remove"), options).run();

  EXPECT_EQ(first.states, second.states);
}

}  // namespace
}  // namespace cairn::crash
