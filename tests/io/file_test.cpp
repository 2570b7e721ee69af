// SPDX-License-Identifier: Apache-2.0
#include "io/internal/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "io/attacked_syscalls.hpp"
#include "io/faulty_syscalls.hpp"
#include "io/internal/check.hpp"
#include "io/internal/mapped_file.hpp"
#include "io/internal/remove_directory.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::list_tree;
using testing::TempDir;
using testing::write_text;

class DirectoryTest : public ::testing::Test {
 protected:
  TempDir temp_;
  Directory directory_ = Directory::open(posix_syscalls(), temp_.path());
};

TEST_F(DirectoryTest, WritesAndReadsASmallFile) {
  write_small_file(directory_, "file", "hello");

  EXPECT_EQ(read_small_file(directory_, "file", 5), "hello");
}

TEST_F(DirectoryTest, NeverOpensAnExistingFileToCreateIt) {
  write_text(temp_ / "file", "old");

  EXPECT_THAT([&] { write_small_file(directory_, "file", "new"); },
              FailsWithErrno(EEXIST, HasSubstr("file")));
  EXPECT_EQ(testing::read_text(temp_ / "file"), "old");
}

TEST_F(DirectoryTest, RefusesNamesThatLeaveIt) {
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/.."), std::string("/a"),
        std::string("a//b"), std::string("a/"), std::string("a\0b", 3)}) {
    EXPECT_THAT([&] { static_cast<void>(directory_.open_file(name)); }, Fails(Errc::invalid_argument))
        << name;
    EXPECT_THAT([&] { directory_.remove_file(name); }, Fails(Errc::invalid_argument)) << name;
  }
}

TEST_F(DirectoryTest, RefusesAFileThatIsMissing) {
  EXPECT_THAT([&] { static_cast<void>(directory_.open_file("gone")); },
              Fails(Errc::not_found, HasSubstr("gone")));
}

TEST_F(DirectoryTest, RefusesAFifoWithoutWaitingForIt) {
  ASSERT_EQ(::mkfifo((temp_ / "fifo").c_str(), 0600), 0);

  EXPECT_THAT([&] { static_cast<void>(directory_.open_file("fifo")); },
              Fails(Errc::malformed_metadata, HasSubstr("fifo is not a regular file")));
}

TEST_F(DirectoryTest, RefusesADirectoryInAFilesPlace) {
  std::filesystem::create_directory(temp_ / "d");

  EXPECT_THAT([&] { static_cast<void>(directory_.open_file("d")); },
              Fails(Errc::malformed_metadata, HasSubstr("not a regular file")));
}

TEST_F(DirectoryTest, RefusesASymbolicLink) {
  write_text(temp_ / "file", "x");
  std::filesystem::create_symlink("file", temp_ / "link");

  EXPECT_THAT([&] { static_cast<void>(directory_.open_file("link")); },
              Fails(Errc::malformed_metadata, HasSubstr("symbolic link")));
}

TEST_F(DirectoryTest, RefusesASmallFileThatIsLarge) {
  write_text(temp_ / "file", "123456");

  EXPECT_THAT([&] { read_small_file(directory_, "file", 5); },
              Fails(Errc::malformed_metadata, HasSubstr("6 bytes; at most 5")));
}

TEST_F(DirectoryTest, DescribesALinkAsALink) {
  std::filesystem::create_symlink("nowhere", temp_ / "link");

  EXPECT_EQ(directory_.status("link")->kind, FileKind::symlink);
  EXPECT_EQ(directory_.status("nowhere"), std::nullopt);
  EXPECT_EQ(directory_.status("link/below"), std::nullopt);
}

TEST_F(DirectoryTest, RefusesAnotherDirectoryInThePlaceOfTheOneItMade) {
  AttackedSyscalls syscalls;
  const Directory directory = Directory::open(syscalls, temp_.path());
  std::filesystem::create_directory(temp_ / "photos");
  write_text(temp_ / "photos/diary", "mine");
  syscalls.plan(2, [this] {
    std::filesystem::rename(temp_ / "new", temp_ / "aside");
    std::filesystem::rename(temp_ / "photos", temp_ / "new");
    return true;
  });

  EXPECT_THAT([&] { static_cast<void>(directory.make_directory("new")); },
              Fails(Errc::io_failure, HasSubstr("another directory has taken its name")));
}

TEST_F(DirectoryTest, RemovesATreeButNotWhatItsLinksPointTo) {
  std::filesystem::create_directories(temp_ / "outside");
  write_text(temp_ / "outside/keep", "x");
  std::filesystem::create_directories(temp_ / "tree/a/b");
  write_text(temp_ / "tree/a/b/file", "x");
  std::filesystem::create_directory_symlink("../outside", temp_ / "tree/link");

  remove_directory(directory_, "tree", directory_.open_directory("tree"));

  EXPECT_THAT(list_tree(temp_.path()), ElementsAre("outside", "outside/keep"));
}

TEST_F(DirectoryTest, RemovesWhatGoesLastOnlyWhenAllElseIsGone) {
  FaultySyscalls syscalls;
  const Directory directory = Directory::open(syscalls, temp_.path());
  std::filesystem::create_directories(temp_ / "tree");
  for (const char* name : {"tree/a", "tree/mark", "tree/z"}) {
    write_text(temp_ / name, "x");
  }
  constexpr std::array<std::string_view, 1> kLast = {"mark"};

  syscalls.plan({Call::unlink, 3, 1, -EIO});

  EXPECT_THAT([&] { remove_directory(directory, "tree", directory.open_directory("tree"), kLast); },
              FailsWithErrno(EIO, HasSubstr("unlink")));
  EXPECT_THAT(list_tree(temp_.path()), ElementsAre("tree", "tree/mark"));
}

TEST_F(DirectoryTest, ListsByName) {
  for (const char* name : {"b", "c", "a"}) {
    write_text(temp_ / name, "");
  }

  const std::vector<DirectoryEntry> entries = directory_.list();

  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name + entries[1].name + entries[2].name, "abc");
}

TEST_F(DirectoryTest, ReportsAFailedSync) {
  FaultySyscalls syscalls;
  const Directory directory = Directory::open(syscalls, temp_.path());
  syscalls.plan({Call::sync, 1, 1, -EIO});

  EXPECT_THAT([&] { directory.sync(); }, FailsWithErrno(EIO, HasSubstr("fsync")));
}

TEST_F(DirectoryTest, ReportsACloseThatLostData) {
  FaultySyscalls syscalls;
  const Directory directory = Directory::open(syscalls, temp_.path());
  syscalls.plan({Call::close, 1, 1, -EIO});

  EXPECT_THAT([&] { write_small_file(directory, "file", "x"); }, FailsWithErrno(EIO, HasSubstr("close")));
}

TEST_F(DirectoryTest, MapsAFileForAsLongAsSomebodyLooksAtIt) {
  write_text(temp_ / "mapped", "hello");
  const auto is_mapped = [&] {
    return testing::read_text("/proc/self/maps").find((temp_ / "mapped").string()) != std::string::npos;
  };

  auto bytes = map_file(directory_.open_file("mapped"), 5, temp_ / "mapped");

  EXPECT_EQ(std::memcmp(bytes->data(), "hello", 5), 0);
  EXPECT_TRUE(is_mapped());
  bytes.reset();
  EXPECT_FALSE(is_mapped());
}

TEST_F(DirectoryTest, TakesACloseThatASignalInterruptsForDone) {
  FaultySyscalls syscalls;
  const Directory directory = Directory::open(syscalls, temp_.path());
  syscalls.plan({Call::close, 1, 1, -EINTR});

  write_small_file(directory, "file", "x");

  EXPECT_EQ(testing::read_text(temp_ / "file"), "x");
}

TEST_F(DirectoryTest, OpensAgainAfterASignal) {
  FaultySyscalls syscalls;
  syscalls.plan({Call::open, 1, 3, -EINTR});

  EXPECT_NO_THROW(Directory::open(syscalls, temp_.path()));
}

TEST_F(DirectoryTest, RepeatsWhatASignalInterruptedWhetherItWasDoneOrNot) {
  FaultySyscalls syscalls;
  const Directory directory = Directory::open(syscalls, temp_.path());
  for (const bool is_performed : {false, true}) {
    syscalls.plan({Call::make_directory, 1, 1, -EINTR, is_performed});
    EXPECT_NO_THROW(static_cast<void>(directory.make_directory("made")));
    write_text(temp_ / "file", "");
    syscalls.plan({Call::status, 1, 1, -EINTR, is_performed});
    EXPECT_TRUE(directory.status("file"));
    syscalls.plan({Call::rename, 1, 1, -EINTR, is_performed});
    EXPECT_NO_THROW(directory.rename("file", directory, "renamed", RenameMode::no_replace));
    syscalls.plan({Call::unlink, 1, 1, -EINTR, is_performed});
    EXPECT_NO_THROW(directory.remove_file("renamed"));
    syscalls.plan({Call::unlink, 1, 1, -EINTR, is_performed});
    EXPECT_NO_THROW(directory.remove_empty_directory("made"));
    EXPECT_THAT(list_tree(temp_.path()), ::testing::IsEmpty());
  }
}

TEST_F(DirectoryTest, DoesNotRepeatAnExchangeOrASync) {
  FaultySyscalls syscalls;
  const Directory directory = Directory::open(syscalls, temp_.path());
  write_text(temp_ / "a", "a");
  write_text(temp_ / "b", "b");

  syscalls.plan({Call::rename, 1, 1, -EINTR, true});
  EXPECT_THAT([&] { directory.rename("a", directory, "b", RenameMode::exchange); },
              FailsWithErrno(EINTR, HasSubstr("rename")));
  EXPECT_EQ(testing::read_text(temp_ / "a"), "b") << "done twice, it is undone";
  syscalls.plan({Call::sync, 1, 1, -EINTR});
  EXPECT_THAT([&] { directory.sync(); }, FailsWithErrno(EINTR, HasSubstr("fsync")));
}

TEST_F(DirectoryTest, ListsAgainAfterASignal) {
  FaultySyscalls syscalls;
  const Directory directory = Directory::open(syscalls, temp_.path());
  write_text(temp_ / "file", "");
  syscalls.plan({Call::list, 1, 3, -EINTR});

  EXPECT_EQ(directory.list().size(), 1u);
}

TEST_F(DirectoryTest, WritesAgainWhatWasPutOff) {
  FaultySyscalls syscalls;
  syscalls.plan({Call::write, 1, 3, -EAGAIN});

  write_small_file(Directory::open(syscalls, temp_.path()), "file", "hello");

  EXPECT_EQ(testing::read_text(temp_ / "file"), "hello");
}

TEST_F(DirectoryTest, ReadsAgainWhatWasPutOff) {
  FaultySyscalls syscalls;
  write_text(temp_ / "file", "hello");
  syscalls.plan({Call::read, 1, 3, -EAGAIN});

  EXPECT_EQ(read_small_file(Directory::open(syscalls, temp_.path()), "file", 5), "hello");
}

TEST(MovedAtLast, WaitsForWhatIsPutOffForAWhile) {
  const auto begin = std::chrono::steady_clock::now();
  const auto call = [begin]() -> std::int64_t {
    return std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20) ? -EAGAIN : 7;
  };

  EXPECT_EQ(moved_at_last(call), 7);
}

TEST_F(DirectoryTest, GivesUpOnWhatIsPutOffForEver) {
  FaultySyscalls syscalls;
  write_text(temp_ / "file", "hello");
  syscalls.plan({Call::read, 1, kForEver, -EAGAIN});

  EXPECT_THAT([&] { read_small_file(Directory::open(syscalls, temp_.path()), "file", 5); },
              FailsWithErrno(EAGAIN, HasSubstr("read ")));
}

TEST(DirectoryOpen, NamesWhatItCannotOpen) {
  EXPECT_THAT([] { Directory::open(posix_syscalls(), "/nowhere/at/all"); },
              FailsWithErrno(ENOENT, HasSubstr("open /nowhere/at/all")));
}

}  // namespace
}  // namespace cairn::io
