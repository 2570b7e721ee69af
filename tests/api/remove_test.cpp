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

  remove_checkpoint(target(), *context_);

  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(RemoveCheckpoint, TellsWhatItKept) {
  save_items({{"state", tree_}});
  testing::write_text(target() / "notes.txt", "mine");

  const store::RemovalReport report = remove_checkpoint(target(), *context_);

  EXPECT_THAT(report.kept, ::testing::ElementsAre(HasSubstr("'notes.txt'")));
  EXPECT_EQ(testing::read_text(target() / "notes.txt"), "mine");
}

TEST_F(RemoveCheckpoint, LeavesTheNamesFreeForTheNextSave) {
  save_items({{"state", tree_}});
  remove_checkpoint(target(), *context_);

  save_items({{"state", tree_}});

  EXPECT_EQ(load_items().take<Tree>("state"), tree_);
}

TEST_F(RemoveCheckpoint, NamesAPathThatIsNotThere) {
  EXPECT_THAT([&] { remove_checkpoint(target(), *context_); },
              Fails(Errc::not_found, HasSubstr("checkpoint")));
}

TEST_F(RemoveCheckpoint, WithAContextOfTheParentProcessIsRefused) {
  save_items({{"state", tree_}});

  const pid_t child = ::fork();
  if (child == 0) {
    try {
      remove_checkpoint(target(), *context_);
    } catch (const Error& error) {
      ::_exit(error.code() == Errc::closed ? 7 : 8);
    }
    ::_exit(9);
  }

  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(load_items().take<Tree>("state"), tree_);
}

}  // namespace
}  // namespace cairn
