// SPDX-License-Identifier: Apache-2.0
// Loads and saves of files and disks that take no direct transfers, and say so in different ways.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "io/internal/page_cache.hpp"
#include "io/internal/syscalls.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Blob;
using ::testing::HasSubstr;
using testing::make_blob;
using ::testing::Not;

constexpr std::size_t kDirectBlobBytes = (std::size_t{9} << 20) + 12'345;

/// A disk that refuses direct transfers in one of the ways that there are.
class RefusingDisk final : public testing::ForwardingSyscalls {
 public:
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    if ((flags & O_DIRECT) != 0 && open_error != 0) {
      return -open_error;
    }
    // Where O_DIRECT is accepted the cache serves all the same: this must work on tmpfs, too.
    const int fd = ForwardingSyscalls::open_beneath(directory, path, flags & ~O_DIRECT, mode);
    if ((flags & O_DIRECT) != 0) {
      const std::lock_guard lock(mutex_);
      direct_.insert(fd);
    }
    return fd;
  }

  int close(int fd) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      direct_.erase(fd);
    }
    return ForwardingSyscalls::close(fd);
  }

  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    return transfer_error != 0 && is_direct(fd) ? -transfer_error
                                                : ForwardingSyscalls::read_at(fd, data, size, offset);
  }

  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override {
    return transfer_error != 0 && is_direct(fd) ? -transfer_error
                                                : ForwardingSyscalls::write_at(fd, data, size, offset);
  }

  int status(int fd, io::FileStatus& status) noexcept override {
    const int result = ForwardingSyscalls::status(fd, status);
    status.is_direct_alignment_known = true;
    status.direct_alignment_bytes = alignment_bytes;
    return result;
  }

  int open_error = 0;
  int transfer_error = 0;
  std::uint32_t alignment_bytes = 512;

 private:
  [[nodiscard]] bool is_direct(int fd) {
    const std::lock_guard lock(mutex_);
    return direct_.contains(fd);
  }

  std::mutex mutex_;
  std::set<int> direct_;
};

class DirectTransfers : public ::testing::Test {
 protected:
  DirectTransfers() {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.syscalls = disk_;
    context_.emplace(std::move(options));
  }

  SaveResult save() {
    return core::start_save(target(), {{"blob", blob_}}, registry_, SaveOptions(), *context_).wait();
  }

  /// Loads what is not in the page cache; nothing when it cannot be put out of it.
  std::optional<LoadResult> load_cold() {
    const std::filesystem::path file = target() / "blob/blob.bin";
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const bool is_cached = io::seems_cached(fd, kDirectBlobBytes);
    ::close(fd);
    if (is_cached) {
      return std::nullopt;
    }
    Loaded loaded = core::start_load(target(), {}, registry_, LoadOptions(), *context_).wait();
    EXPECT_EQ(loaded.take<Blob>("blob"), blob_);
    return loaded.result();
  }

  [[nodiscard]] std::filesystem::path target() const { return directory_ / "step"; }

  testing::TempDir directory_;
  RegistrySnapshot registry_ = testing::blob_registry();
  std::shared_ptr<RefusingDisk> disk_ = std::make_shared<RefusingDisk>();
  std::optional<Context> context_;
  const Blob blob_ = make_blob(kDirectBlobBytes);
};

constexpr const char* kStaysCached = "files of this file system do not leave the page cache";

TEST_F(DirectTransfers, AreMadeWhereTheDiskTakesThem) {
  EXPECT_THAT(save().fallbacks, Not(::testing::Contains(HasSubstr("O_DIRECT"))));
  const auto loaded = load_cold();
  if (!loaded) {
    GTEST_SKIP() << kStaysCached;
  }
  EXPECT_GT(loaded->direct_bytes, 0u);
  EXPECT_THAT(loaded->fallbacks, Not(::testing::Contains(HasSubstr("O_DIRECT"))));
}

TEST_F(DirectTransfers, ThatAreRefusedWhenMadeGoThroughTheCache) {
  disk_->transfer_error = EINVAL;

  EXPECT_THAT(save().fallbacks, ::testing::Contains(HasSubstr("the file system refuses O_DIRECT; written")));
  const auto loaded = load_cold();
  if (!loaded) {
    GTEST_SKIP() << kStaysCached;
  }
  EXPECT_EQ(loaded->direct_bytes, 0u);
  EXPECT_THAT(loaded->fallbacks, ::testing::Contains(HasSubstr("the file system refuses O_DIRECT; read")));
}

TEST_F(DirectTransfers, ThatFailOtherwiseFailTheLoad) {
  save();
  if (!load_cold()) {
    GTEST_SKIP() << kStaysCached;
  }
  disk_->transfer_error = EIO;

  EXPECT_THAT([&] { load_cold(); }, testing::FailsWithErrno(EIO, HasSubstr("blob.bin")));
}

TEST_F(DirectTransfers, OfLargerBlocksGoThroughTheCache) {
  disk_->alignment_bytes = 16'384;

  EXPECT_THAT(save().fallbacks, ::testing::Contains(AllOf(HasSubstr("16384 bytes"), HasSubstr("written"))));
  const auto loaded = load_cold();
  if (!loaded) {
    GTEST_SKIP() << kStaysCached;
  }
  EXPECT_EQ(loaded->direct_bytes, 0u);
  EXPECT_THAT(loaded->fallbacks, ::testing::Contains(AllOf(HasSubstr("16384 bytes"), HasSubstr("read"))));
}

TEST_F(DirectTransfers, WithoutADescriptorGoThroughTheCacheAndBlameNoFileSystem) {
  disk_->open_error = EMFILE;

  EXPECT_THAT(save().fallbacks,
              ::testing::Contains(AllOf(HasSubstr("Too many open files"), Not(HasSubstr("refuses")))));
  const auto loaded = load_cold();
  if (!loaded) {
    GTEST_SKIP() << kStaysCached;
  }
  EXPECT_THAT(loaded->fallbacks,
              ::testing::Contains(AllOf(HasSubstr("Too many open files"), Not(HasSubstr("refuses")))));
}

}  // namespace
}  // namespace cairn
