// SPDX-License-Identifier: Apache-2.0
// The kernel starts threads for io_uring, too, and counts them among the user's.
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "io/internal/engine.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr unsigned kOfThreads = 2;            // The smallest thread engine.
constexpr unsigned kOfRing = kOfThreads + 1;  // With the thread of a ring.
constexpr unsigned kOfKernel = kOfRing + 1;   // With one of the kernel's.

/// What an engine says that may start so many threads.
class EngineOfFewThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!make_engine(EngineKind::automatic).reason.empty()) {
      GTEST_SKIP() << "no io_uring here";
    }
    if (const std::vector<std::string> lines = said_with(100); lines.size() < 2) {
      GTEST_SKIP() << "a limit on the threads of one process cannot be had: " << lines.at(0);
    }
  }

  std::vector<std::string> said_with(unsigned threads, const std::string& kind = "automatic") {
    testing::Process process(CAIRN_FEW_THREADS, {kind, std::to_string(threads), directory_ / "file"});
    return process.finish();
  }

  testing::TempDir directory_;
};

TEST_F(EngineOfFewThreads, IsARingWhereThereAreEnough) {
  const std::vector<std::string> said = said_with(100);

  EXPECT_THAT(said, ElementsAre("io_uring: ", "sync: 0", "write: 4096", "sync: 0", "read: 4096", "same",
                                "io_uring: "));
}

TEST_F(EngineOfFewThreads, IsThreadsWhereTheKernelMayStartNoneForTheRing) {
  const std::vector<std::string> said = said_with(kOfRing);

  EXPECT_THAT(said,
              ElementsAre(AllOf(StartsWith("threads: io_uring is not available"), HasSubstr("RLIMIT_NPROC")),
                          "sync: 0", "write: 4096", "sync: 0", "read: 4096", "same", "threads: "));
}

TEST_F(EngineOfFewThreads, IsThreadsWhereTheRingHasNoThreadOfItsOwn) {
  const std::vector<std::string> said = said_with(kOfThreads);

  EXPECT_THAT(said, ElementsAre(StartsWith("threads: io_uring is not available"), "sync: 0", "write: 4096",
                                "sync: 0", "read: 4096", "same", "threads: "));
}

TEST_F(EngineOfFewThreads, SaysWhyThereIsNoRingToOneWhoAskedForIt) {
  const std::vector<std::string> said = said_with(kOfRing, "uring");

  EXPECT_THAT(said, ElementsAre(AllOf(StartsWith("io_uring"), HasSubstr("RLIMIT_NPROC"))));
}

TEST_F(EngineOfFewThreads, IsARingWhereTheKernelHasOneThreadForIt) {
  std::vector<std::string> said = said_with(kOfKernel);

  ASSERT_FALSE(said.empty());
  said.pop_back();  // Whether the kernel wants another thread for transfers is its own affair.
  EXPECT_THAT(said, ElementsAre("io_uring: ", "sync: 0", "write: 4096", "sync: 0", "read: 4096", "same"));
}

TEST_F(EngineOfFewThreads, IsNoneWithoutThreadsAndNamesTheLimit) {
  const std::vector<std::string> said = said_with(kOfThreads - 1);

  EXPECT_THAT(said, ElementsAre(AllOf(StartsWith("start a thread"), HasSubstr("RLIMIT_NPROC is 2"))));
}

}  // namespace
}  // namespace cairn::io
