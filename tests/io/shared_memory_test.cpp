// SPDX-License-Identifier: Apache-2.0
#include "io/internal/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "support/fails.hpp"

namespace cairn::io {
namespace {

using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;

constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr std::byte kMark{7};

using Seen = std::shared_ptr<const std::span<const std::byte>>;

class SharedMemoryTest : public ::testing::Test {
 protected:
  [[nodiscard]] static Seen map(const SharedMemoryKey& key) { return map_shared(posix_syscalls(), key); }

  std::optional<SharedMemory> memory_{std::in_place, posix_syscalls(), "cairn-test", kBytes};
};

TEST_F(SharedMemoryTest, IsSeenWhileItIsWritten) {
  const Seen seen = map(memory_->key());
  ASSERT_EQ(seen->size(), kBytes);
  EXPECT_EQ(seen->back(), std::byte{0});

  memory_->bytes().back() = kMark;

  EXPECT_EQ(seen->back(), kMark);
}

TEST_F(SharedMemoryTest, IsSeenByAnotherProcess) {
  memory_->bytes().back() = kMark;

  EXPECT_EXIT(std::_Exit(map(memory_->key())->back() == kMark ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST_F(SharedMemoryTest, OutlivesItsProcessWhereItIsMapped) {
  memory_->bytes().back() = kMark;
  const Seen seen = map(memory_->key());

  memory_.reset();

  EXPECT_EQ(seen->back(), kMark);
}

TEST_F(SharedMemoryTest, IsNotMadeShorterByAnybody) {
  const std::string path = fmt::format("/proc/self/fd/{}", memory_->key().fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);

  EXPECT_EQ(::ftruncate(fd, 0), -1);

  EXPECT_EQ(errno, EPERM);
  ::close(fd);
}

TEST_F(SharedMemoryTest, IsNotTakenForAnother) {
  SharedMemoryKey key = memory_->key();
  key.name = "cairn-other";

  EXPECT_THAT([&] { static_cast<void>(map(key)); },
              Fails(Errc::io_failure, HasSubstr("is not 'cairn-other'")));
}

TEST_F(SharedMemoryTest, IsNotMappedBeyondItsEnd) {
  SharedMemoryKey key = memory_->key();
  ++key.bytes;

  EXPECT_THAT([&] { static_cast<void>(map(key)); }, Fails(Errc::io_failure, HasSubstr("bytes, not 1048577")));
}

TEST_F(SharedMemoryTest, IsOutOfReachOnceItIsGone) {
  const SharedMemoryKey key = memory_->key();

  memory_.reset();

  EXPECT_THAT([&] { static_cast<void>(map(key)); }, FailsWithErrno(ENOENT, HasSubstr("readlink")));
}

TEST_F(SharedMemoryTest, FailsWhereThereIsNoRoomForAllOfIt) {
  FaultySyscalls syscalls;
  syscalls.plan({Call::allocate, 1, kForEver, -ENOSPC});

  EXPECT_THAT([&] { const SharedMemory memory(syscalls, "cairn-test", kBytes); },
              FailsWithErrno(ENOSPC, HasSubstr("fallocate cairn-test")));
}

TEST_F(SharedMemoryTest, IsRefusedWhereItsProcessMayMakeItShorter) {
  const int fd = ::memfd_create("cairn-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(fd, kBytes), 0);
  SharedMemoryKey key = memory_->key();
  key.fd = static_cast<std::uint32_t>(fd);

  EXPECT_THAT([&] { static_cast<void>(map(key)); },
              Fails(Errc::io_failure, HasSubstr("may be made shorter")));

  ::close(fd);
}

}  // namespace
}  // namespace cairn::io
