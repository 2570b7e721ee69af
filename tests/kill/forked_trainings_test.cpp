// SPDX-License-Identifier: Apache-2.0
// Programs that fork while they have a Checkpointer, a PartialSave or the default context.
#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/api/load.hpp"
#include "cairn/training/partial_save.hpp"

#include "kill/parts.hpp"
#include "support/process.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class ForkedTrainings : public ::testing::Test {
 protected:
  [[nodiscard]] cairn::testing::Process start(const char* mode) const {
    return {CAIRN_FORKING_TRAINER, {root_.path().string(), mode}};
  }

  const cairn::testing::TempDir root_;
};

TEST_F(ForkedTrainings, ACheckpointerOfTheParentIsClosedAndKeepsNoChildFromItsEnd) {
  EXPECT_THAT(start("training").finish(), ElementsAre("children 9, stuck 0, wrong 0"));
}

TEST_F(ForkedTrainings, AChildHasADefaultContextOfItsOwn) {
  if (cairn::testing::kHasSanitizer) {
    GTEST_SKIP() << "sanitizers do not follow the threads of a forked child";
  }
  EXPECT_THAT(start("default").finish(), ElementsAre("children 20, stuck 0, wrong 0"));
}

TEST_F(ForkedTrainings, AContextOfTheParentSaysWhatToDo) {
  EXPECT_THAT(start("own").finish(), ElementsAre("children 2, stuck 0, wrong 0"));
}

TEST_F(ForkedTrainings, PartsAreNotLockedByAChildThatAnAdditionHasForked) {
  cairn::testing::Process process = start("add");
  // On a busy machine the child, which takes a while until it says or closes anything, may still be the first.
  const std::string one = process.next_line();
  const std::string other = process.next_line();
  EXPECT_THAT((std::vector{one, other}), UnorderedElementsAre("added", "forked"));

  process.tell("end");
  EXPECT_THAT(process.finish(), ElementsAre());
  EXPECT_EQ(load(root_ / "whole").size(), 2u);
}

TEST_F(ForkedTrainings, PartsAreNotLockedByAChildThatOutlivesAnAddition) {
  cairn::testing::Process process = start("killed");
  ASSERT_EQ(process.next_line(), "forked");
  process.signal(SIGKILL);
  process.await_end();

  PartialSave partial(root_ / "whole");
  partial.add({{"state", part(0)}});
  EXPECT_EQ(partial.parts(), 1u);

  process.tell("end");
  EXPECT_THAT(process.finish(), ElementsAre());
}

}  // namespace
}  // namespace cairn::kill
