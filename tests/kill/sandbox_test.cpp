// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Sandbox, ThatForbidsTheRingOfALivingContextLeavesThreads) {
  const cairn::testing::TempDir root;
  cairn::testing::Process process(CAIRN_SANDBOXED, {root.path().string()});

  const std::vector<std::string> said = process.finish();

  if (!said.empty() && said.front() != "io_uring") {
    GTEST_SKIP() << "no io_uring here";
  }
  if (said.size() > 1 && said[1] == "may not") {
    GTEST_SKIP() << "the kernel has no seccomp filters";
  }
  const auto refused = HasSubstr("io_uring was refused while in use (Operation not permitted)");
  EXPECT_THAT(said, ElementsAre("io_uring", "threads", refused, "threads", refused, "equal", "done"));
}

TEST(Sandbox, WithoutHardLinksSavesAndOverwrites) {
  const cairn::testing::TempDir root;
  cairn::testing::Process process(CAIRN_SANDBOXED, {root.path().string(), "links"});

  const std::vector<std::string> said = process.finish();

  if (!said.empty() && said.front() == "may not") {
    GTEST_SKIP() << "the kernel has no seccomp filters";
  }
  EXPECT_THAT(said, ElementsAre("1", "2", "3", "1", "done"));
}

}  // namespace
}  // namespace cairn::kill
