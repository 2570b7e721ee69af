// SPDX-License-Identifier: Apache-2.0
#include "io/internal/durable_file.hpp"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "cairn/async/awaitable.hpp"

#include "base/internal/aligned_memory.hpp"
#include "io/faulty_syscalls.hpp"
#include "io/internal/direct.hpp"
#include "io/internal/engine.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::read_text;
using testing::run;
using testing::TempDir;

constexpr std::size_t kLarge = std::size_t{1} << 20;

AlignedMemory letters(std::size_t size) {
  AlignedMemory memory(size);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory.data()[i] = static_cast<std::byte>('a' + i * 7 / 5 % 26);
  }
  return memory;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

NewFileOptions expecting(std::uint64_t bytes) {
  NewFileOptions options;
  options.expected_bytes = bytes;
  return options;
}

class DurableFileTest : public ::testing::Test {
 protected:
  DurableFileTest() {
    EngineOptions options;
    options.syscalls = &syscalls_;
    engine_ = make_engine(EngineKind::threads, options).engine;
    directory_ = std::make_unique<Directory>(Directory::open(syscalls_, temp_.path()));
  }

  DurableFile create(const NewFileOptions& options) {
    return DurableFile::create(*engine_, *directory_, "file", options);
  }

  TempDir temp_;
  FaultySyscalls syscalls_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Directory> directory_;
};

TEST_F(DurableFileTest, KeepsWhatWasWritten) {
  const AlignedMemory data = letters(kLarge);
  DurableFile file = create(expecting(kLarge));

  run(file.write(0, data.bytes()));
  run(file.finish(kLarge));

  EXPECT_EQ(read_text(temp_ / "file"), text_of(data.bytes()));
}

TEST_F(DurableFileTest, WritesUnalignedHeadsAndTailsThroughTheCache) {
  const AlignedMemory data = letters(kLarge);
  const auto odd = data.bytes().subspan(100, kLarge - 300);
  DurableFile file = create(expecting(kLarge));

  run(file.write(100, odd));
  run(file.write(0, data.bytes().first(100)));
  run(file.finish(kLarge - 200));

  EXPECT_EQ(read_text(temp_ / "file"), text_of(data.bytes().first(kLarge - 200)));
  if (file.is_direct()) {
    EXPECT_EQ(file.direct_bytes(), kLarge - 2 * kDirectBytes);
  }
}

TEST_F(DurableFileTest, CutsThePaddingOff) {
  const AlignedMemory data = letters(kLarge);
  DurableFile file = create(expecting(kLarge - 1000));

  run(file.write(0, data.bytes()));
  run(file.finish(kLarge - 1000));

  EXPECT_EQ(std::filesystem::file_size(temp_ / "file"), kLarge - 1000);
}

TEST_F(DurableFileTest, GrowsPastWhatWasExpected) {
  const AlignedMemory data = letters(kLarge);
  DurableFile file = create(expecting(10));

  run(file.write(0, data.bytes()));
  run(file.finish(kLarge));

  EXPECT_EQ(read_text(temp_ / "file"), text_of(data.bytes()));
}

TEST_F(DurableFileTest, TakesConcurrentWritesOfDisjointRanges) {
  const AlignedMemory data = letters(8 * kLarge);
  DurableFile file = create(expecting(8 * kLarge));
  std::vector<Awaitable<>> writes;

  for (std::size_t i = 0; i < 8; ++i) {
    writes.push_back(file.write(i * kLarge, data.bytes().subspan(i * kLarge, kLarge)));
  }
  run(async::when_all(std::move(writes)));
  run(file.finish(8 * kLarge));

  EXPECT_EQ(read_text(temp_ / "file"), text_of(data.bytes()));
}

TEST_F(DurableFileTest, SmallFilesGoThroughTheCache) {
  EXPECT_FALSE(create(expecting(4096)).is_direct());
}

TEST_F(DurableFileTest, AnEmptyFileIsAFile) {
  DurableFile file = create({});

  run(file.finish(0));

  EXPECT_EQ(read_text(temp_ / "file"), "");
}

TEST_F(DurableFileTest, SaysWhichPiecesCanGoPastTheCache) {
  const AlignedMemory data = letters(kLarge);
  const DurableFile file = create(expecting(kLarge));
  if (!file.is_direct()) {
    GTEST_SKIP() << "the file system of " << temp_.path() << " has no O_DIRECT";
  }

  EXPECT_TRUE(file.can_write_direct(data.data(), 4096, 8192));
  EXPECT_FALSE(file.can_write_direct(data.data() + 1, 4096, 8192));
  EXPECT_FALSE(file.can_write_direct(data.data(), 4095, 8192));
  EXPECT_FALSE(file.can_write_direct(data.data(), 4096, 100));
  EXPECT_FALSE(file.can_write_direct(data.data(), 0, 0));
}

TEST_F(DurableFileTest, FallsBackWhenADirectWriteIsRefused) {
  const AlignedMemory data = letters(kLarge);
  DurableFile file = create(expecting(kLarge));
  syscalls_.plan({Call::write, 1, file.is_direct() ? 1 : 0, -EINVAL});

  run(file.write(0, data.bytes()));
  run(file.finish(kLarge));

  EXPECT_FALSE(file.is_direct());
  EXPECT_EQ(read_text(temp_ / "file"), text_of(data.bytes()));
}

TEST_F(DurableFileTest, GoesOnWithoutReservationWhereThereIsNone) {
  syscalls_.plan({Call::allocate, 1, 1, -EOPNOTSUPP});
  DurableFile file = create(expecting(kLarge));

  EXPECT_EQ(std::filesystem::file_size(temp_ / "file"), kLarge);
}

TEST_F(DurableFileTest, AFullDiskShowsBeforeAnythingIsWritten) {
  syscalls_.plan({Call::allocate, 1, 1, -ENOSPC});

  EXPECT_THAT([&] { create(expecting(kLarge)); }, FailsWithErrno(ENOSPC, HasSubstr("fallocate")));
}

TEST_F(DurableFileTest, RefusesASizeThatNoFileCanHave) {
  EXPECT_THAT([&] { create(expecting(~std::uint64_t{0})); }, FailsWithErrno(EFBIG, HasSubstr("file")));
}

TEST_F(DurableFileTest, IsPoisonedByAFailedWrite) {
  const AlignedMemory data = letters(4096);
  DurableFile file = create({});
  syscalls_.plan({Call::write, 1, 1, -EIO});

  EXPECT_THAT([&] { run(file.write(0, data.bytes())); }, FailsWithErrno(EIO, HasSubstr("write")));
  EXPECT_THAT([&] { run(file.finish(4096)); }, Fails(Errc::io_failure, HasSubstr("an earlier write failed")));
}

TEST_F(DurableFileTest, IsNeverSyncedAgainAfterAFailedSync) {
  DurableFile file = create({});
  syscalls_.plan({Call::sync_data, 1, kForEver, -EIO});

  EXPECT_THAT([&] { run(file.finish(0)); }, FailsWithErrno(EIO, HasSubstr("fdatasync")));
  EXPECT_THAT([&] { run(file.finish(0)); }, Fails(Errc::closed));
  EXPECT_EQ(syscalls_.hits(), 1);
}

TEST_F(DurableFileTest, ReportsACloseThatLostData) {
  DurableFile file = create({});
  syscalls_.plan({Call::close, 1, 1, -EDQUOT});

  EXPECT_THAT([&] { run(file.finish(0)); }, FailsWithErrno(EDQUOT, HasSubstr("close")));
}

TEST_F(DurableFileTest, RefusesWritesAfterItsEnd) {
  const AlignedMemory data = letters(4096);
  DurableFile file = create({});
  run(file.finish(0));

  EXPECT_THAT([&] { run(file.write(0, data.bytes())); }, Fails(Errc::closed));
}

TEST_F(DurableFileTest, RefusesANameThatIsTaken) {
  create({});

  EXPECT_THAT([&] { create({}); }, FailsWithErrno(EEXIST, HasSubstr("file")));
}

TEST(DurableFileOnUring, WritesPastTheCache) {
  TempDir temp;
  std::unique_ptr<Engine> engine;
  try {
    engine = make_engine(EngineKind::uring).engine;
  } catch (const Error& error) {
    GTEST_SKIP() << "no io_uring here: " << error.what();
  }
  const AlignedMemory data = letters(8 * kLarge);
  const Directory directory = Directory::open(posix_syscalls(), temp.path());
  DurableFile file = DurableFile::create(*engine, directory, "file", expecting(8 * kLarge - 9));

  run(file.write(0, data.bytes()));
  run(file.finish(8 * kLarge - 9));

  EXPECT_EQ(file.direct_bytes(), file.is_direct() ? 8 * kLarge : 0);
  EXPECT_EQ(read_text(temp / "file"), text_of(data.bytes().first(8 * kLarge - 9)));
}

NewFileOptions filled_in_place(std::uint64_t bytes) {
  NewFileOptions options = expecting(bytes);
  options.is_filled_in_place = true;
  return options;
}

TEST_F(DurableFileTest, IsFilledWhereItLies) {
  const AlignedMemory data = letters(kLarge);
  DurableFile file = create(filled_in_place(kLarge - 5));
  ASSERT_EQ(file.memory().size(), kLarge - 5);

  std::copy_n(data.data(), kLarge / 2, file.memory().data());
  run(file.write(0, file.memory().first(kLarge / 2)));
  run(file.write(kLarge / 2, data.bytes().subspan(kLarge / 2, kLarge / 2 - 5)));
  run(file.finish(kLarge - 5));

  EXPECT_EQ(read_text(temp_ / "file"), text_of(data.bytes().first(kLarge - 5)));
  EXPECT_EQ(file.why_not_direct(), "");
}

TEST_F(DurableFileTest, IsWrittenWhereItCannotBeMapped) {
  const AlignedMemory data = letters(kLarge);
  syscalls_.map_error = ENOMEM;
  DurableFile file = create(filled_in_place(kLarge));

  EXPECT_TRUE(file.memory().empty());
  run(file.write(0, data.bytes()));
  run(file.finish(kLarge));

  EXPECT_EQ(read_text(temp_ / "file"), text_of(data.bytes()));
  EXPECT_THAT(file.why_not_direct(), HasSubstr("cannot be mapped (Cannot allocate memory)"));
}

TEST_F(DurableFileTest, IsNotMappedWhereNothingIsReservedForIt) {
  syscalls_.plan({Call::allocate, 1, 1, -EOPNOTSUPP});

  const DurableFile file = create(filled_in_place(kLarge));

  EXPECT_TRUE(file.memory().empty());
}

TEST_F(DurableFileTest, KeepsTheSizeThatItWasMappedWith) {
  DurableFile file = create(filled_in_place(kLarge));
  const AlignedMemory data = letters(16);

  EXPECT_THAT([&] { run(file.write(kLarge - 15, data.bytes().first(16))); },
              FailsWithErrno(EFBIG, HasSubstr("file")));
  EXPECT_THAT([&] { run(file.finish(kLarge - 1)); }, Fails(Errc::io_failure, HasSubstr("1048576 bytes")));
}

TEST(DurableFileOnTmpfs, WorksWithOrWithoutDirectWrites) {
  if (!std::filesystem::is_directory("/dev/shm")) {
    GTEST_SKIP() << "no /dev/shm";
  }
  const std::filesystem::path path = "/dev/shm/cairn-test-" + std::to_string(::getpid());
  std::filesystem::create_directory(path);
  const AlignedMemory data = letters(kLarge);
  const EngineChoice choice = make_engine(EngineKind::automatic);
  const Directory directory = Directory::open(posix_syscalls(), path);
  DurableFile file = DurableFile::create(*choice.engine, directory, "file", expecting(kLarge));

  run(file.write(0, data.bytes()));
  run(file.finish(kLarge));
  const std::string text = read_text(path / "file");
  std::filesystem::remove_all(path);

  EXPECT_EQ(text, text_of(data.bytes()));
}

TEST(DurableFileOnAFullDisk, SaysSoWhenItIsCreated) {
  TempDir temp;
  if (::mount("tmpfs", temp.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs needs root: " << std::strerror(errno);
  }
  const EngineChoice choice = make_engine(EngineKind::threads);
  {
    const Directory directory = Directory::open(posix_syscalls(), temp.path());
    EXPECT_THAT([&] { DurableFile::create(*choice.engine, directory, "file", expecting(4 << 20)); },
                FailsWithErrno(ENOSPC, HasSubstr("file")));
    EXPECT_THAT([&] { DurableFile::create(*choice.engine, directory, "memory", filled_in_place(4 << 20)); },
                FailsWithErrno(ENOSPC, HasSubstr("memory")));
  }
  ::umount(temp.path().c_str());
}

}  // namespace
}  // namespace cairn::io
