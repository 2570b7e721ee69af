// SPDX-License-Identifier: Apache-2.0
#include "store/internal/other_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;
using testing::write_text;

/// Notes which files are synced, and answers as the test wants.
class WatchedFiles final : public testing::ForwardingSyscalls {
 public:
  int sync(int fd) noexcept override {
    if (sync_result != 0) {
      return sync_result;
    }
    synced.insert(inode_of(fd));
    return ForwardingSyscalls::sync(fd);
  }

  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    ++reads;
    if (before_read) {
      before_read();
    }
    if (refusals > 0) {
      --refusals;
      return refusal;
    }
    return ForwardingSyscalls::read_at(fd, data, std::min(size, most_bytes), offset);
  }

  static std::uint64_t inode_of(int fd) {
    struct ::stat found {};
    return ::fstat(fd, &found) == 0 ? found.st_ino : 0;
  }

  std::set<std::uint64_t> synced;
  int sync_result = 0;
  int reads = 0;
  int refusals = 0;
  int refusal = -EINTR;
  std::size_t most_bytes = SIZE_MAX;
  std::function<void()> before_read;
};

std::uint64_t inode_of(const std::filesystem::path& path) {
  struct ::stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

io::FileDigest digest_of(const std::string& path, const std::string& text) {
  io::ChunkHasher hasher;
  hasher.update(std::as_bytes(std::span(text)));
  return hasher.finish(path);
}

class OtherFilesOfHandlers : public ::testing::Test {
 protected:
  OtherFilesOfHandlers() { std::filesystem::create_directory(staged_ / "item"); }

  std::vector<io::FileDigest> digest(const std::map<std::string, io::FileDigest>& written = {}) {
    return digest_other_files(io::Directory::open(calls_, staged_.path()), written);
  }

  std::vector<std::string> paths() {
    std::vector<std::string> found;
    for (const io::FileDigest& each : digest()) {
      found.push_back(each.path);
    }
    return found;
  }

  std::filesystem::path make(std::string_view name, std::string_view text = "text") {
    const std::filesystem::path path = staged_.path() / "item" / name;
    std::filesystem::create_directories(path.parent_path());
    write_text(path, text);
    return path;
  }

  TempDir staged_;
  WatchedFiles calls_;
};

TEST_F(OtherFilesOfHandlers, AreFoundInSubdirectories) {
  make("a.bin");
  make("deep/er/b.bin");
  make("deep/c.bin");

  EXPECT_THAT(paths(), ElementsAre("item/a.bin", "item/deep/c.bin", "item/deep/er/b.bin"));
}

TEST_F(OtherFilesOfHandlers, AreThoseThatTheContextDidNotWrite) {
  make("mine.bin");
  make("theirs.bin");
  write_text(staged_ / ".owner", "of the commit itself");

  const auto digests = digest({{"item/theirs.bin", io::FileDigest()}});

  ASSERT_EQ(digests.size(), 1u);
  EXPECT_EQ(digests[0].path, "item/mine.bin");
}

TEST_F(OtherFilesOfHandlers, AreHashedWholeWhateverTheirSize) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, io::kChunkBytes, 3 * io::kChunkBytes + 5}) {
    std::string text(bytes, 'x');
    for (std::size_t i = 0; i < bytes; i += 997) {
      text[i] = static_cast<char>(i % 251);
    }
    make("file.bin", text);
    calls_.most_bytes = 700'001;  // Short reads.

    const auto digests = digest();

    ASSERT_EQ(digests.size(), 1u);
    EXPECT_EQ(digests[0].size_bytes, bytes);
    EXPECT_EQ(digests[0].chunks, digest_of("item/file.bin", text).chunks) << bytes;
  }
}

TEST_F(OtherFilesOfHandlers, AreEachSynced) {
  const auto first = make("a.bin");
  const auto empty = make("sub/empty.bin", "");

  static_cast<void>(digest());

  EXPECT_TRUE(calls_.synced.contains(inode_of(first)));
  EXPECT_TRUE(calls_.synced.contains(inode_of(empty)));
}

TEST_F(OtherFilesOfHandlers, FailTheSaveWhenTheyCannotBeSynced) {
  make("a.bin");
  calls_.sync_result = -EIO;

  EXPECT_THAT([&] { digest(); }, FailsWithErrno(EIO, AllOf(HasSubstr("fsync"), HasSubstr("a.bin"))));
}

TEST_F(OtherFilesOfHandlers, MayNotBeLinks) {
  const TempDir elsewhere;
  write_text(elsewhere / "target", "secret");
  std::filesystem::create_symlink(elsewhere / "target", staged_ / "item/link");

  EXPECT_THAT([&] { digest(); },
              Fails(Errc::handler_failed, AllOf(HasSubstr("'item/link'"), HasSubstr("not a regular file"))));
}

TEST_F(OtherFilesOfHandlers, MayNotLieBehindALinkedDirectory) {
  const TempDir elsewhere;
  write_text(elsewhere / "target", "secret");
  std::filesystem::create_directory_symlink(elsewhere.path(), staged_ / "item/link");

  EXPECT_THAT([&] { digest(); }, Fails(Errc::handler_failed, HasSubstr("'item/link'")));
}

TEST_F(OtherFilesOfHandlers, MayNotBePipes) {
  ASSERT_EQ(::mkfifo((staged_ / "item/pipe").c_str(), 0600), 0);

  EXPECT_THAT([&] { digest(); }, Fails(Errc::handler_failed, HasSubstr("'item/pipe'")));
}

TEST_F(OtherFilesOfHandlers, ThatGrowMeanwhileFailTheSave) {
  const auto path = make("log.txt", std::string(io::kChunkBytes, 'x'));
  calls_.before_read = [&] { write_text(path, std::string(io::kChunkBytes + 1, 'x')); };

  EXPECT_THAT([&] { digest(); }, Fails(Errc::handler_failed,
                                       AllOf(HasSubstr("'item/log.txt'"), HasSubstr("still being written"))));
}

TEST_F(OtherFilesOfHandlers, ThatGrowForEverAreReadOnce) {
  const auto path = make("log.txt", std::string(io::kChunkBytes, 'x'));
  calls_.before_read = [&] { std::filesystem::resize_file(path, std::filesystem::file_size(path) * 2); };

  EXPECT_THAT([&] { digest(); }, Fails(Errc::handler_failed, HasSubstr("still being written")));
  EXPECT_LE(calls_.reads, 3);
}

TEST_F(OtherFilesOfHandlers, ThatShrinkMeanwhileFailTheSave) {
  const auto path = make("log.txt", std::string(io::kChunkBytes, 'x'));
  calls_.before_read = [&] { std::filesystem::resize_file(path, 10); };

  EXPECT_THAT([&] { digest(); }, Fails(Errc::io_failure, HasSubstr("log.txt")));
}

TEST_F(OtherFilesOfHandlers, AreReadThroughInterruptions) {
  for (const int refusal : {-EINTR, -EAGAIN}) {
    make("a.bin", "text");
    calls_.refusals = 5;
    calls_.refusal = refusal;

    const auto digests = digest();

    ASSERT_EQ(digests.size(), 1u);
    EXPECT_EQ(digests[0].chunks, digest_of("item/a.bin", "text").chunks);
  }
}

TEST_F(OtherFilesOfHandlers, DoNotHangOnEndlessInterruptions) {
  make("a.bin");
  calls_.refusals = INT32_MAX;

  EXPECT_THAT([&] { digest(); }, FailsWithErrno(EINTR, HasSubstr("a.bin")));
}

TEST_F(OtherFilesOfHandlers, MayNotLieDeeperThanARemovalGoes) {
  std::string deep;
  for (int i = 0; i < 101; ++i) {
    deep += "d/";
  }
  make(deep + "a.bin");

  EXPECT_THAT([&] { digest(); }, Fails(Errc::handler_failed, HasSubstr("directories deep")));
}

TEST_F(OtherFilesOfHandlers, MayBeNone) {
  EXPECT_THAT(digest(), IsEmpty());
}

}  // namespace
}  // namespace cairn::store
