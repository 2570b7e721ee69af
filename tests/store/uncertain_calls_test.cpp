// SPDX-License-Identifier: Apache-2.0
// Calls that were done and answered otherwise, or not done for now: what is made is not forgotten, and what is
// removed is gone.
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "store/internal/source.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"
#include "support/unsynced_syscalls.hpp"

namespace cairn::store {
namespace {

using ::testing::Each;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list_tree;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TempDir;

class UncertainCalls : public ::testing::Test {
 protected:
  UncertainCalls() {
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    options.threads = 2;
    engine_ = io::make_engine(io::EngineKind::threads, options).engine;
  }

  StagedDirectory create(const std::filesystem::path& target, StagedOptions options = {}) {
    return StagedDirectory::create(*engine_, target, std::move(options));
  }

  TempDir temp_;
  io::FaultySyscalls syscalls_{testing::unsynced_syscalls()};
  std::unique_ptr<io::Engine> engine_;
};

TEST_F(UncertainCalls, TriesAgainToRemoveWhatIsStillThere) {
  StagedDirectory staged = create(temp_ / "step");
  staged.make_directory("state");
  syscalls_.plan({io::Call::unlink, 1, io::kForEver, -ENOTEMPTY});  // Somebody writes on.

  staged.abandon();
  EXPECT_THAT(staged.abandonment_problem(), HasSubstr("is left to recovery"));
  EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); }, Fails(Errc::closed));
  syscalls_.clear();
  staged.abandon();

  EXPECT_EQ(staged.abandonment_problem(), "");
  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(UncertainCalls, LeavesNoDirectoryWhoseMakingWasReportedAsFailed) {
  for (const int error : {-EIO, -EEXIST, -EINTR}) {
    syscalls_.plan({io::Call::make_directory, 1, io::kForEver, error, true});

    EXPECT_THAT([&] { static_cast<void>(create(temp_ / "step")); },
                FailsWithErrno(-error, HasSubstr("mkdir")));

    EXPECT_THAT(list_tree(temp_.path()), IsEmpty()) << error;
  }
}

/// A signal interrupts one call; whether it was done is not said.
TEST_F(UncertainCalls, GoesOnAfterSignals) {
  constexpr io::Call kRepeated[] = {io::Call::make_directory, io::Call::rename, io::Call::unlink,
                                    io::Call::link};
  for (const CommitMode mode : {CommitMode::automatic, CommitMode::marker}) {
    for (const bool is_performed : {false, true}) {
      for (const io::Call call : kRepeated) {
        for (int number = 1, hits = 1; hits > 0 && !HasFailure(); ++number) {
          SCOPED_TRACE(::testing::Message()
                       << static_cast<int>(call) << " " << number << " " << is_performed);
          const TempDir temp;
          StagedOptions options = overwriting();
          options.commit_mode = mode;
          save_sample(*engine_, temp / "step", "old", options);
          syscalls_.plan({call, number, 1, -EINTR, is_performed});

          save_sample(*engine_, temp / "step", "new", options);
          hits = syscalls_.hits();
          syscalls_.clear();

          EXPECT_EQ(load_sample(temp / "step"), "new");
          EXPECT_THAT(list_tree(temp.path()), Each(Not(StartsWith("."))));
        }
      }
    }
  }
}

TEST_F(UncertainCalls, LinksAFileOfAnotherCheckpointOnceMoreAfterASignal) {
  for (const bool is_performed : {false, true}) {
    const TempDir temp;
    save_sample(*engine_, temp / "from", "text");
    const std::shared_ptr<const Source> from = open_committed_source(syscalls_, temp / "from");
    StagedDirectory staged = create(temp / "to");
    staged.make_directory("state");
    syscalls_.plan({io::Call::link, 1, 1, -EINTR, is_performed});

    EXPECT_TRUE(staged.link_file("state/data", *from->directory())) << is_performed;

    EXPECT_EQ(syscalls_.hits(), 1);
    syscalls_.clear();
    EXPECT_EQ(std::filesystem::hard_link_count(temp / "from" / "state" / "data"), 2U);
  }
}

}  // namespace
}  // namespace cairn::store
