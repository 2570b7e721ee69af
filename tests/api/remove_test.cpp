// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "cairn/api/maintain.hpp"

#include "api/fixture.hpp"
#include "io/internal/file.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/held_checkpoint.hpp"
#include "support/manual_clock.hpp"

namespace cairn {
namespace {

using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RemoveCheckpoint : public testing::ApiTest {};

TEST_F(RemoveCheckpoint, RemovesACheckpoint) {
  save_items({{"state", tree_}});

  remove_checkpoint(target(), {}, *context_);

  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(RemoveCheckpoint, TellsWhatItKept) {
  save_items({{"state", tree_}});
  testing::write_text(target() / "notes.txt", "mine");

  const store::RemovalReport report = remove_checkpoint(target(), {}, *context_);

  EXPECT_THAT(report.kept, ::testing::ElementsAre(HasSubstr("'notes.txt'")));
  EXPECT_EQ(testing::read_text(target() / "notes.txt"), "mine");
}

TEST_F(RemoveCheckpoint, LeavesTheNamesFreeForTheNextSave) {
  save_items({{"state", tree_}});
  remove_checkpoint(target(), {}, *context_);

  save_items({{"state", tree_}});

  EXPECT_EQ(load_items().take<Tree>("state"), tree_);
}

TEST_F(RemoveCheckpoint, NamesAPathThatIsNotThere) {
  EXPECT_THAT([&] { remove_checkpoint(target(), {}, *context_); },
              Fails(Errc::not_found, HasSubstr("checkpoint")));
}

TEST_F(RemoveCheckpoint, LeavesWhatIsHeld) {
  save_items({{"state", tree_}});
  RemoveOptions anyway;
  anyway.even_if_held = true;
  {
    const store::HeldCheckpoint held(store::directory_store(), io::posix_syscalls(), target());

    EXPECT_THAT([&] { remove_checkpoint(target(), {}, *context_); },
                FailsWithErrno(EBUSY, HasSubstr("held by somebody who reads it")));
    EXPECT_EQ(load_items().take<Tree>("state"), tree_);
    remove_checkpoint(target(), anyway, *context_);
  }
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(RemoveCheckpoint, LeavesAStepThatIsPinned) {
  const std::filesystem::path path = directory_ / "step_0100";
  save(path, tree_, SaveOptions(), *context_);
  std::filesystem::create_directory(directory_ / ".cairn-pins");
  testing::write_text(directory_ / ".cairn-pins" / "100", "");

  EXPECT_THAT([&] { remove_checkpoint(path, {}, *context_); },
              FailsWithErrno(EBUSY, HasSubstr("pinned (.cairn-pins/100)")));
  EXPECT_EQ(load(path, LoadOptions(), *context_), tree_);
  std::filesystem::remove(directory_ / ".cairn-pins" / "100");
  remove_checkpoint(path, {}, *context_);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RemoveCheckpoint, WaitsForWhoPinsItAndThenGivesUp) {
  save_items({{"state", tree_}});
  const auto clock = std::make_shared<testing::ManualClock>();
  ContextOptions options = small();
  options.clock = clock;
  const Context context(std::move(options));
  const store::CheckpointLock held(io::Directory::open(io::posix_syscalls(), directory_.path()),
                                   "checkpoint");

  std::future<void> removal =
      std::async(std::launch::async, [&] { remove_checkpoint(target(), {}, context); });
  while (removal.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    clock->advance(std::chrono::seconds(1));
  }

  EXPECT_THAT([&] { removal.get(); }, FailsWithErrno(EBUSY, HasSubstr("by somebody else")));
  EXPECT_EQ(load_items().take<Tree>("state"), tree_);
}

/// What a call answers in a process that was forked from that of its context: the code of the error, or 0.
int answer_in_fork(const std::function<void()>& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 0;
    try {
      call();
    } catch (const Error& error) {
      code = error.code().value();
    }
    ::_exit(code);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(RemoveCheckpoint, AsAnyOtherCallIsRefusedInAForkedProcess) {
  save_items({{"state", tree_}});
  const int closed = static_cast<int>(Errc::closed);

  EXPECT_EQ(answer_in_fork([&] { remove_checkpoint(target(), {}, *context_); }), closed);
  EXPECT_EQ(answer_in_fork([&] { static_cast<void>(verify(target(), {}, *context_)); }), closed);
  EXPECT_EQ(answer_in_fork([&] { static_cast<void>(recover(directory_.path(), {}, *context_)); }), closed);
  EXPECT_EQ(load_items().take<Tree>("state"), tree_);
}

}  // namespace
}  // namespace cairn
