// SPDX-License-Identifier: Apache-2.0
#include "support/slow_calls.hpp"

#include <fcntl.h>

#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "io/internal/syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn::testing {
namespace {

/// Spends no time, and counts how much there was to spend.
class Counting final : public SlowCalls {
 public:
  using SlowCalls::SlowCalls;

  Duration spent{0};
  std::vector<std::string> told;

 private:
  void spend(CallKind /*kind*/, Duration time) noexcept override { spent += time; }
  void tell(CallKind kind, const std::string& what) noexcept override {
    told.push_back(std::string(name(kind)) + " " + what);
  }
};

class SlowCallsTest : public ::testing::Test {
 protected:
  static Disturbances always_slow() {
    Disturbances some;
    some.slow = 1;
    some.longest = std::chrono::milliseconds(7);
    return some;
  }

  const TempDir directory_;
  io::FileStatus status_;
};

TEST_F(SlowCallsTest, AreAsTheSystemHasThemUntilTheyAreStirredUp) {
  Counting calls(1, always_slow());

  EXPECT_EQ(calls.status_at(AT_FDCWD, directory_.path().c_str(), status_), 0);

  EXPECT_EQ(calls.spent, Duration(0));
  EXPECT_EQ(calls.slow_calls(), 0U);
}

TEST_F(SlowCallsTest, TakeTimeAndAreDone) {
  Counting calls(1, always_slow());
  calls.stir_up();

  EXPECT_EQ(calls.make_directory_at(AT_FDCWD, (directory_ / "made").c_str(), 0777), 0);

  EXPECT_TRUE(std::filesystem::is_directory(directory_ / "made"));
  EXPECT_GT(calls.spent, Duration(0));
  EXPECT_LE(calls.spent, std::chrono::milliseconds(7));
  EXPECT_EQ(calls.slow_calls(), 1U);
}

TEST_F(SlowCallsTest, HaveTheSameFateForTheSameSeed) {
  Disturbances some;
  some.failing = 3;
  Counting first(5, some);
  Counting second(5, some);
  first.stir_up();
  second.stir_up();

  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(first.status_at(AT_FDCWD, directory_.path().c_str(), status_),
              second.status_at(AT_FDCWD, directory_.path().c_str(), status_));
  }
  EXPECT_GT(first.failures(), 0U);
  EXPECT_EQ(first.told, second.told);
}

TEST_F(SlowCallsTest, CloseWhatTheyFailToClose) {
  Disturbances some;
  some.failing = 1;
  Counting calls(1, some);
  const int fd = calls.open_at(AT_FDCWD, directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  ASSERT_GE(fd, 0);
  calls.stir_up();

  EXPECT_EQ(calls.close(fd), -EIO);

  EXPECT_EQ(io::posix_syscalls().status(fd, status_), -EBADF);
}

TEST_F(SlowCallsTest, LoseTheAnswersOfRenamesOnly) {
  Disturbances some;
  some.lost_answers = 1;
  Counting calls(1, some);
  calls.stir_up();
  ASSERT_EQ(calls.make_directory_at(AT_FDCWD, (directory_ / "old").c_str(), 0777), 0);

  EXPECT_EQ(calls.rename_at(AT_FDCWD, (directory_ / "old").c_str(), AT_FDCWD, (directory_ / "new").c_str(),
                            io::RenameMode::no_replace),
            -EIO);

  EXPECT_TRUE(std::filesystem::exists(directory_ / "new"));
  EXPECT_EQ(calls.lost_answers(), 1U);
}

}  // namespace
}  // namespace cairn::testing
