// SPDX-License-Identifier: Apache-2.0
// Programs that fork while they have a context.
#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

using ::testing::ElementsAre;

constexpr const char* kChildren = "40";

class ForkTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] cairn::testing::Process start(const std::string& mode) const {
    return {CAIRN_FORKER, {root_.path().string(), GetParam(), mode, kChildren}};
  }

  /// What recovery says about the only directory in the root.
  [[nodiscard]] store::RecoveryEntry recovered() const {
    return store::recover(io::posix_syscalls(), root_.path()).entries.at(0);
  }

  const cairn::testing::TempDir root_;
};

class ForkInASave : public ForkTest {};

TEST_P(ForkTest, DisturbsNoSaveAndNoLoadAndNoChildThatEnds) {
  EXPECT_THAT(start("work").finish(), ElementsAre("children 40, stuck 0, wrong 0"));
}

TEST_P(ForkTest, GivesAnotherProgramNoDescriptor) {
  EXPECT_THAT(start("descriptors").finish(), ElementsAre("done"));
}

TEST_P(ForkInASave, KeepsItsTemporaryAliveAsLongAsAChildThatOutlivesIt) {
  cairn::testing::Process process = start("outlive");
  ASSERT_EQ(process.next_line(), "forked");
  process.signal(SIGKILL);
  process.await_end();

  EXPECT_EQ(recovered().kind, store::EntryClass::live);

  process.tell("end");
  EXPECT_THAT(process.finish(), ElementsAre());
  EXPECT_TRUE(recovered().is_removed);
}

TEST_P(ForkInASave, LeavesItsTemporaryToRecoveryWhenTheChildIsAnotherProgram) {
  cairn::testing::Process process = start("exec");
  ASSERT_EQ(process.next_line(), "forked");
  process.signal(SIGKILL);
  process.await_end();

  EXPECT_TRUE(recovered().is_removed);
}

INSTANTIATE_TEST_SUITE_P(Engines, ForkTest, ::testing::Values("automatic", "threads"),
                         [](const auto& engine) { return std::string(engine.param); });
INSTANTIATE_TEST_SUITE_P(Engines, ForkInASave, ::testing::Values("automatic"),
                         [](const auto& engine) { return std::string(engine.param); });

}  // namespace
}  // namespace cairn::kill
