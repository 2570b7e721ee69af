// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include "cairn/api/maintain.hpp"

#include "api/fixture.hpp"

namespace cairn {
namespace {

using testing::Fails;
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
