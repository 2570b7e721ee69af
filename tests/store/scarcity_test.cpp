// SPDX-License-Identifier: Apache-2.0
// Little is there: no descriptor any more, or a sandbox that knows no new system call.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list_tree;
using testing::TempDir;

/// Takes all descriptors of the process but `spare`.
class TakenDescriptors {
 public:
  explicit TakenDescriptors(std::size_t spare) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 200;
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
      taken_.push_back(fd);
    }
    for (; spare > 0; --spare) {
      ::close(taken_.back());
      taken_.pop_back();
    }
  }

  ~TakenDescriptors() {
    for (const int fd : taken_) {
      ::close(fd);
    }
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }

  TakenDescriptors(const TakenDescriptors&) = delete;
  TakenDescriptors& operator=(const TakenDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

class WithoutDescriptors : public ::testing::Test {
 protected:
  TempDir temp_;
  io::FaultySyscalls syscalls_;
  std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads).engine;
};

TEST_F(WithoutDescriptors, ASaveThatFailsLeavesNothing) {
  StagedDirectory staged = StagedDirectory::create(*engine_, temp_ / "step");
  staged.make_directory("state");
  write_sample_file(staged, "state/data", "x");
  std::filesystem::create_directories(staged.path() / "state/deep/deeper");
  testing::write_text(staged.path() / "state/deep/deeper/data", "x");
  {
    const TakenDescriptors taken(0);
    EXPECT_THROW(static_cast<void>(staged.create_file("state/more")), Error);

    staged.abandon();
  }

  EXPECT_THAT(staged.abandonment_problem(), IsEmpty());
  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(WithoutDescriptors, LeavesNothingHoweverManyTheSaveGets) {
  for (std::size_t spare = 0; spare < 9; ++spare) {
    {
      const TakenDescriptors taken(spare);
      try {
        StagedDirectory staged = StagedDirectory::create(*engine_, temp_ / "step");
        staged.make_directory("state");
        static_cast<void>(staged.create_file("state/data"));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), std::error_code(EMFILE, std::system_category())) << error.what();
      }
    }

    EXPECT_THAT(list_tree(temp_.path()), IsEmpty()) << spare;
  }
}

TEST_F(WithoutDescriptors, WhatASaveCannotRemoveIsReported) {
  io::EngineOptions options;
  options.syscalls = &syscalls_;
  const std::unique_ptr<io::Engine> engine = io::make_engine(io::EngineKind::threads, options).engine;
  StagedDirectory staged = StagedDirectory::create(*engine, temp_ / "step");
  syscalls_.plan({io::Call::unlink, 1, io::kForEver, -EIO});

  staged.abandon();

  EXPECT_THAT(staged.abandonment_problem(),
              AllOf(HasSubstr(staged.path().string() + " is left to recovery"), HasSubstr("unlink")));
}

TEST(OldSandbox, SavesReplacesRecoversAndRemoves) {
  const TempDir temp;

  const int status = std::system((std::string(CAIRN_OLD_SANDBOX) + " " + temp.path().string()).c_str());

  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "a seccomp filter may not be set here";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(list_tree(temp.path()), IsEmpty());
}

}  // namespace
}  // namespace cairn::store
