// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a training that were written once and are never replaced: what a step says of itself, and a pin.
// When one of these tests fails, trainings that exist can no longer be read or are no longer written the same: raise
// the format's version instead.
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/test_data.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::list_tree;
using testing::read_text;

const std::filesystem::path kGolden = testing::test_data() / "golden/run-v1";

void count_up(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i);
  }
}

class GoldenRun : public testing::TrainingTest {
 protected:
  GoldenRun() : TrainingTest(reproducible()) {}

  static ContextOptions reproducible() {
    ContextOptions options = small();
    options.random = count_up;
    return options;
  }

  static Tree state(std::uint64_t step) { return {{"step", step}, {"w", std::vector<float>{0.5F, -1.0F}}}; }

  void save_golden(const std::filesystem::path& path) const {
    clock_->advance(std::chrono::seconds(1769860800));  // 2026-01-31T12:00:00Z, and an hour.
    Checkpointer run(path, {}, *context_);
    run.save(90, {{"state", state(90)}}, Metrics{{"loss", 0.5}, {"accuracy", 0.875}});
    run.wait();
    clock_->advance(std::chrono::nanoseconds(90'000'000'001));
    run.save(100, {{"state", state(100)}});
    run.wait();
    run.pin(90);
  }
};

TEST_F(GoldenRun, HasItsStepsMetricsAndPins) {
  const std::vector<StepInfo> steps = StepDirectory(kGolden, {}, *context_).infos();

  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].step, 90u);
  EXPECT_EQ(steps[0].metrics, (Metrics{{"loss", 0.5}, {"accuracy", 0.875}}));
  EXPECT_TRUE(steps[0].is_pinned);
  EXPECT_EQ(steps[1].step, 100u);
  EXPECT_TRUE(steps[1].metrics.empty());
  EXPECT_FALSE(steps[1].is_pinned);
  EXPECT_EQ(*steps[1].committed - *steps[0].committed, std::chrono::nanoseconds(90'000'000'001));
}

TEST_F(GoldenRun, IsResumed) {
  Checkpointer run(kGolden, {}, *context_);
  auto resumed = run.resume();

  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, 100u);
  EXPECT_EQ(resumed->loaded.take<Tree>("state"), state(100));
}

/// With CAIRN_WRITE_GOLDEN_RUN=<path> in the environment, writes a golden run there: for a new version of the format.
TEST_F(GoldenRun, IsWrittenTheSameToTheByte) {
  const char* wanted = std::getenv("CAIRN_WRITE_GOLDEN_RUN");
  const std::filesystem::path path = wanted != nullptr ? std::filesystem::path(wanted) : root();

  save_golden(path);

  ASSERT_EQ(list_tree(path), list_tree(kGolden));
  for (const std::string& name : list_tree(kGolden)) {
    if (std::filesystem::is_regular_file(kGolden / name)) {
      EXPECT_TRUE(read_text(path / name) == read_text(kGolden / name)) << name;
    }
  }
}

}  // namespace
}  // namespace cairn
