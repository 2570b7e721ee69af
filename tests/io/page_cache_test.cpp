// SPDX-License-Identifier: Apache-2.0
#include "io/internal/page_cache.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

/// A file of some bytes, which has just been written: it is in the page cache.
class PageCache : public ::testing::Test {
 protected:
  ~PageCache() override {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }

  void write(std::size_t bytes) {
    testing::write_text(directory_ / "file", std::string(bytes, 'x'));
    fd_ = ::open((directory_ / "file").c_str(), O_RDONLY | O_CLOEXEC);
  }

  /// Returns whether this file system says at all what is in the cache.
  [[nodiscard]] bool can_be_asked() const {
    char byte = 0;
    iovec one{&byte, 1};
    return ::preadv2(fd_, &one, 1, 0, RWF_NOWAIT) >= 0 || errno != EOPNOTSUPP;
  }

  testing::TempDir directory_;
  int fd_ = -1;
};

TEST_F(PageCache, HoldsAFileThatWasJustWritten) {
  write(100'000);
  if (!can_be_asked()) {
    GTEST_SKIP() << "this file system has no RWF_NOWAIT";
  }

  EXPECT_TRUE(seems_cached(fd_, 100'000));
}

TEST_F(PageCache, HoldsASmallFileThatWasJustWritten) {
  for (const std::size_t bytes : {1, 5000}) {
    write(bytes);
    if (!can_be_asked()) {
      GTEST_SKIP() << "this file system has no RWF_NOWAIT";
    }

    EXPECT_TRUE(seems_cached(fd_, bytes)) << bytes;
    ::close(fd_);
  }
  fd_ = -1;
}

TEST_F(PageCache, HoldsAllOfAnEmptyFile) {
  write(0);

  EXPECT_TRUE(seems_cached(fd_, 0));
}

TEST_F(PageCache, HoldsNothingThatCannotBeRead) {
  EXPECT_FALSE(seems_cached(-1, 100));
}

}  // namespace
}  // namespace cairn::io
