// SPDX-License-Identifier: Apache-2.0
#include "io/internal/syscalls.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "io/open_walking.hpp"
#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

using testing::TempDir;
using testing::write_text;

int open_with_kernel(int directory, const char* path, int flags, std::uint32_t mode) noexcept {
  return posix_syscalls().open_beneath(directory, path, flags, mode);
}

struct Way {
  int (*open)(int, const char*, int, std::uint32_t) noexcept;
  const char* name;
};

/// The kernel's own lookup and the one for kernels without it must refuse the same paths.
class OpenBeneath : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(directory_ / "root/a/b");
    write_text(directory_ / "root/a/b/file", "inside");
    write_text(directory_ / "outside", "outside");
    std::filesystem::create_symlink("a", directory_ / "root/link");
    std::filesystem::create_symlink("../outside", directory_ / "root/escape");
    root_ = ::open((directory_ / "root").c_str(), O_RDONLY | O_DIRECTORY);
    ASSERT_GE(root_, 0);
  }

  void TearDown() override { ::close(root_); }

  int open(const char* path, int flags = O_RDONLY) {
    const int fd = GetParam().open(root_, path, flags, 0600);
    if (fd >= 0) {
      ::close(fd);
      return 0;
    }
    return fd;
  }

  TempDir directory_;
  int root_ = -1;
};

TEST_P(OpenBeneath, FindsWhatIsThere) {
  EXPECT_EQ(open("a/b/file"), 0);
  EXPECT_EQ(open("a/b", O_RDONLY | O_DIRECTORY), 0);
}

TEST_P(OpenBeneath, CreatesOnlyWhenAsked) {
  EXPECT_EQ(open("a/new"), -ENOENT);
  EXPECT_EQ(open("a/new", O_RDWR | O_CREAT | O_EXCL), 0);
  EXPECT_EQ(open("a/new", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
}

TEST_P(OpenBeneath, PassesNoLink) {
  EXPECT_EQ(open("link/b/file"), -ELOOP);
  EXPECT_EQ(open("escape"), -ELOOP);
  EXPECT_EQ(open("link", O_RDONLY | O_DIRECTORY | O_NOFOLLOW) < 0, true);
}

TEST_P(OpenBeneath, StaysBelow) {
  EXPECT_EQ(open("../outside"), -EXDEV);
  EXPECT_EQ(open("a/../../outside"), -EXDEV);
  EXPECT_EQ(open("/etc/passwd"), -EXDEV);
}

TEST_P(OpenBeneath, ReportsWhatIsNotThere) {
  EXPECT_EQ(open("x/file"), -ENOENT);
}

TEST_P(OpenBeneath, LeaksNoDescriptor) {
  const int before = ::dup(root_);
  ::close(before);

  for (int i = 0; i < 10; ++i) {
    open("a/b/file");
    open("link/b/file");
    open("x/y/z");
  }

  const int after = ::dup(root_);
  ::close(after);
  EXPECT_EQ(after, before);
}

INSTANTIATE_TEST_SUITE_P(Ways, OpenBeneath,
                         ::testing::Values(Way{open_with_kernel, "Kernel"}, Way{open_walking, "Walking"}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(PosixSyscalls, TwoOpenFilesCannotHoldOneLock) {
  TempDir directory;
  write_text(directory / "lock", "");
  const int first = ::open((directory / "lock").c_str(), O_RDWR);
  const int second = ::open((directory / "lock").c_str(), O_RDWR);
  Syscalls& syscalls = posix_syscalls();

  EXPECT_EQ(syscalls.try_lock(first), 0);
  EXPECT_EQ(syscalls.try_lock(second), -EAGAIN);
  ::close(first);
  EXPECT_EQ(syscalls.try_lock(second), 0);

  ::close(second);
}

TEST(PosixSyscalls, SaysAllOfAStatusWhateverWasThereBefore) {
  TempDir directory;
  write_text(directory / "file", "text");
  const int fd = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY);
  FileStatus of_directory;
  of_directory.kind = FileKind::other;
  of_directory.direct_alignment_bytes = 12345;
  FileStatus of_file;
  of_file.size_bytes = 12345;

  EXPECT_EQ(posix_syscalls().status(fd, of_directory), 0);
  EXPECT_EQ(posix_syscalls().status_at(fd, "file", of_file), 0);

  EXPECT_EQ(of_directory.kind, FileKind::directory);
  EXPECT_EQ(of_directory.direct_alignment_bytes, 0u);  // Nobody reads directories past the page cache.
  EXPECT_EQ(of_file.kind, FileKind::regular);
  EXPECT_EQ(of_file.size_bytes, 4u);
  ::close(fd);
}

TEST(PosixSyscalls, ListsWithoutTheDirectoryItself) {
  TempDir directory;
  write_text(directory / "file", "");
  std::filesystem::create_symlink("file", directory / "link");
  const int fd = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY);
  std::vector<DirectoryEntry> first;
  std::vector<DirectoryEntry> again;

  EXPECT_EQ(posix_syscalls().list(fd, first), 0);
  EXPECT_EQ(posix_syscalls().list(fd, again), 0);

  EXPECT_EQ(first.size(), 2u);
  EXPECT_EQ(again.size(), 2u);
  ::close(fd);
}

TEST(PosixSyscalls, RenameThatMayNotReplaceDoesNotReplaceAnEmptyDirectory) {
  TempDir directory;
  std::filesystem::create_directory(directory / "a");
  std::filesystem::create_directory(directory / "b");

  EXPECT_EQ(posix_syscalls().rename_at(AT_FDCWD, (directory / "a").c_str(), AT_FDCWD,
                                       (directory / "b").c_str(), RenameMode::no_replace),
            -EEXIST);
}

}  // namespace
}  // namespace cairn::io
