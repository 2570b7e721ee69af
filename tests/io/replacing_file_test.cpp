// SPDX-License-Identifier: Apache-2.0
#include "io/internal/replacing_file.hpp"

#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::list_tree;
using testing::TempDir;
using ::testing::UnorderedElementsAre;
using testing::write_text;

TEST(ReplacingFile, RemovesWhatCrashedWritersOfTheNameHaveLeft) {
  const TempDir temp;
  write_text(temp / ".file-0123456789abcdef.tmp", "of a writer that has died");
  write_text(temp / ".other-0123456789abcdef.tmp", "of another name");
  write_text(temp / ".file-notes.tmp", "not ours");

  ReplacingFile(posix_syscalls(), temp / "file").publish();

  EXPECT_THAT(list_tree(temp.path()),
              UnorderedElementsAre(".file-notes.tmp", ".other-0123456789abcdef.tmp", "file"));
}

TEST(ReplacingFile, LeavesWhatALivingWriterHas) {
  const TempDir temp;
  ReplacingFile first(posix_syscalls(), temp / "file");

  ReplacingFile(posix_syscalls(), temp / "file").publish();

  EXPECT_EQ(list_tree(temp.path()).size(), 2U);
  first.publish();
  EXPECT_THAT(list_tree(temp.path()), ElementsAre("file"));
}

TEST(ReplacingFile, TakesAnotherNameWhenItsOwnIsRemovedBeforeItIsLocked) {
  const TempDir temp;
  FaultySyscalls syscalls;
  syscalls.before_lock = [&] {
    for (const std::string& name : list_tree(temp.path())) {
      std::filesystem::remove(temp / name);
    }
  };

  ReplacingFile(syscalls, temp / "file").publish();

  EXPECT_THAT(list_tree(temp.path()), ElementsAre("file"));
}

TEST(ReplacingFile, TakesNamesOfEveryLength) {
  const TempDir temp;
  const std::string name(255, 'n');

  ReplacingFile(posix_syscalls(), temp / name).publish();

  EXPECT_THAT(list_tree(temp.path()), ElementsAre(name));
}

TEST(ReplacingFile, RefusesPathsWithoutAName) {
  const TempDir temp;

  for (const auto& path : {temp.path() / "", temp.path() / ".", std::filesystem::path()}) {
    EXPECT_THAT([&] { const ReplacingFile file(posix_syscalls(), path); }, Fails(Errc::invalid_argument))
        << path;
  }
}

}  // namespace
}  // namespace cairn::io
