// SPDX-License-Identifier: Apache-2.0
// What a save says when the system gives a process no more.
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
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Limits : public ::testing::TestWithParam<const char*> {
 protected:
  /// What a save says that has the limit.
  std::vector<std::string> said_under(const char* limit) const {
    cairn::testing::Process process(CAIRN_VICTIM, {root_.path().string(), GetParam(), "1", limit});
    return process.finish();
  }

  std::vector<std::string> left() const {
    store::recover(io::posix_syscalls(), root_.path());
    return cairn::testing::list_tree(root_.path());
  }

  const cairn::testing::TempDir root_;
};

TEST_P(Limits, OnTheSizeOfFilesAreErrorsThatNameTheFile) {
  EXPECT_THAT(said_under("fsize"), ElementsAre(AllOf(HasSubstr("File too large"), HasSubstr("step"))));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_P(Limits, OnTheNumberOfFilesAreErrorsThatNameAPath) {
  EXPECT_THAT(said_under("nofile"),
              ElementsAre(AllOf(HasSubstr("Too many open files"), HasSubstr(root_.path().string()))));
  EXPECT_THAT(left(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Engines, Limits, ::testing::Values("automatic", "threads"),
                         [](const auto& engine) { return std::string(engine.param); });

}  // namespace
}  // namespace cairn::kill
