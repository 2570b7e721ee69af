// SPDX-License-Identifier: Apache-2.0
#include "io/internal/write_behind.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "io/faulty_syscalls.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kLargeBytes = 41 * kMiB + 123;  // Behind 16 MiB pieces go past the page cache.

const std::string& large_text() {
  static const std::string text = [] {
    std::string made(kLargeBytes, '\0');
    std::mt19937 random(5);
    std::generate(made.begin(), made.end(), [&random] { return static_cast<char>(random()); });
    return made;
  }();
  return text;
}

class WriteBehindTest : public ::testing::Test {
 protected:
  /// Appends the large text in parts of one size, the last of which may be smaller.
  void write_large(std::size_t part_bytes) {
    const FileHandle file = directory_.create_file("file");
    WriteBehind writer(directory_, "file", file, temp_ / "file");
    for (std::string_view rest = large_text(); !rest.empty();) {
      const std::string_view part = rest.substr(0, part_bytes);
      writer.append(std::as_bytes(std::span(part)));
      rest.remove_prefix(part.size());
    }
    writer.finish();
  }

  void expect_large() {
    EXPECT_TRUE(testing::read_text(temp_ / "file") == large_text());
    directory_.remove_file("file");
  }

  const testing::TempDir temp_;
  FaultySyscalls syscalls_;
  const Directory directory_ = Directory::open(syscalls_, temp_.path());
};

TEST_F(WriteBehindTest, WritesWhatIsAppendedInLargePieces) {
  for (const std::size_t part_bytes : {std::size_t{65'512}, 2 * kMiB, kLargeBytes}) {
    const int calls = syscalls_.calls();

    write_large(part_bytes);

    EXPECT_LT(syscalls_.calls() - calls, 40) << part_bytes;
    expect_large();
  }
}

TEST_F(WriteBehindTest, AnEmptyFileIsEmpty) {
  const FileHandle file = directory_.create_file("file");
  WriteBehind(directory_, "file", file, temp_ / "file").finish();

  EXPECT_EQ(testing::read_text(temp_ / "file"), "");
}

TEST_F(WriteBehindTest, WritesThroughThePageCacheWhatDoesNotGoPastIt) {
  for (const int error : {EINVAL, EIO, EAGAIN}) {
    syscalls_.plan({Call::write, 12, 3, -error});
    write_large(kMiB);
    EXPECT_EQ(syscalls_.hits(), 3);
    expect_large();
  }
  syscalls_.plan({Call::write, 12, 3, 4096});  // Less than was asked for, and not even that is there.
  write_large(kMiB);
  expect_large();
  syscalls_.plan({Call::open, 2, 1, -EINVAL});  // The open with O_DIRECT.
  write_large(kMiB);
  EXPECT_EQ(syscalls_.hits(), 1);
  expect_large();
  syscalls_.plan({Call::allocate, 1, kForEver, -ENOSPC});
  write_large(kMiB);
  expect_large();
}

TEST_F(WriteBehindTest, ReportsWhatFailsAgain) {
  for (const int first : {1, 5, 12, 21}) {
    syscalls_.plan({Call::write, first, kForEver, -ENOSPC});
    EXPECT_THAT([&] { write_large(kMiB); }, testing::FailsWithErrno(ENOSPC, ::testing::HasSubstr("write")))
        << first;
    directory_.remove_file("file");
  }
}

TEST_F(WriteBehindTest, WaitsForWhatIsOnItsWayWhenItIsDropped) {
  const FileHandle file = directory_.create_file("file");
  {
    WriteBehind writer(directory_, "file", file, temp_ / "file");
    writer.append(std::as_bytes(std::span(large_text())));
  }
  std::string there(40 * kMiB, '\0');  // What is in pieces that are full.
  read_all(file, std::as_writable_bytes(std::span(there)), 0, temp_ / "file");

  EXPECT_TRUE(large_text().starts_with(there));
}

}  // namespace
}  // namespace cairn::io
