// SPDX-License-Identifier: Apache-2.0
#include "io/internal/transfer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "io/faulty_engine.hpp"
#include "io/internal/engine.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::run;
using testing::TempDir;

std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + i / 4099);
  }
  return bytes;
}

/// Completes against memory; `most` bytes at a time.
FaultyEngine memory_engine(std::vector<std::byte>& file, std::size_t most) {
  return FaultyEngine([&file, most](const Request& request) -> std::int64_t {
    const std::size_t size = std::min(request.size, most);
    if (request.operation == Operation::write) {
      file.resize(std::max<std::size_t>(file.size(), request.offset + size));
      std::memcpy(file.data() + request.offset, request.data, size);
      return static_cast<std::int64_t>(size);
    }
    const std::size_t end = std::min<std::size_t>(file.size(), request.offset + size);
    const std::size_t found = end > request.offset ? end - request.offset : 0;
    std::memcpy(request.data, file.data() + request.offset, found);
    return static_cast<std::int64_t>(found);
  });
}

TEST(WriteExact, ContinuesAfterShortWrites) {
  const std::vector<std::byte> data = numbered(1000);
  std::vector<std::byte> file;
  FaultyEngine engine = memory_engine(file, 7);

  run(write_exact(engine, 3, data, 0, "f"));

  EXPECT_EQ(file, data);
}

TEST(WriteExact, WritesManyPiecesWhole) {
  const std::vector<std::byte> data = numbered(40 * kPieceBytes / 16 + 5 + 2 * kPieceBytes);
  TempDir directory;
  const int fd = ::open((directory / "f").c_str(), O_RDWR | O_CREAT, 0600);
  const EngineChoice choice = make_engine(EngineKind::automatic);
  std::vector<std::byte> read(data.size());

  run(write_exact(*choice.engine, fd, data, 11, "f"));
  run(read_exact(*choice.engine, fd, read, 11, "f"));
  run(sync_data(*choice.engine, fd, "f"));

  EXPECT_EQ(read, data);
  ::close(fd);
}

TEST(WriteExact, GoesOnFromABoundaryAfterAShortDirectWrite) {
  std::vector<std::uint64_t> offsets;
  FaultyEngine engine([&offsets](const Request& request) -> std::int64_t {
    offsets.push_back(request.offset);
    return std::min<std::int64_t>(static_cast<std::int64_t>(request.size), 5000);
  });
  const std::vector<std::byte> data(3 * 4096);

  run(write_exact(engine, 3, data, 8192, "f", 4096));

  EXPECT_THAT(offsets, ElementsAre(8192, 12288, 16384));
}

TEST(WriteExact, TriesAgainWhatASignalInterrupted) {
  int interruptions = 5;
  FaultyEngine engine([&interruptions](const Request& request) -> std::int64_t {
    return interruptions-- > 0 ? (interruptions % 2 == 0 ? -EINTR : -EAGAIN)
                               : static_cast<std::int64_t>(request.size);
  });
  const std::vector<std::byte> data(10);

  EXPECT_NO_THROW(run(write_exact(engine, 3, data, 0, "f")));
}

TEST(WriteExact, GivesUpWhenInterruptedForEver) {
  FaultyEngine engine([](const Request&) -> std::int64_t { return -EAGAIN; });
  const std::vector<std::byte> data(10);

  EXPECT_THAT([&] { run(write_exact(engine, 3, data, 0, "f")); },
              FailsWithErrno(EAGAIN, HasSubstr("write f at 0")));
}

TEST(WriteExact, WaitsForWhatIsPutOffForAWhile) {
  const auto begin = std::chrono::steady_clock::now();
  std::size_t written = 0;
  FaultyEngine engine([&](const Request& request) -> std::int64_t {
    if (request.offset > 0 && std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) {
      return -EAGAIN;
    }
    written += request.size;
    return static_cast<std::int64_t>(request.size);
  });
  const std::vector<std::byte> data(3 * kPieceBytes);

  run(write_exact(engine, 3, data, 0, "f"));

  EXPECT_EQ(written, data.size());
}

TEST(WriteExact, RefusesAWriteOfNothing) {
  FaultyEngine engine([](const Request&) -> std::int64_t { return 0; });
  const std::vector<std::byte> data(10);

  EXPECT_THAT([&] { run(write_exact(engine, 3, data, 5, "/d/f")); },
              Fails(Errc::io_failure, HasSubstr("write /d/f at 5")));
}

TEST(WriteExact, NamesTheOffsetThatFailed) {
  FaultyEngine engine([](const Request& request) -> std::int64_t {
    return request.offset == 0 ? static_cast<std::int64_t>(request.size) : -ENOSPC;
  });
  const std::vector<std::byte> data(kPieceBytes + 10);

  EXPECT_THAT([&] { run(write_exact(engine, 3, data, 0, "f")); },
              FailsWithErrno(ENOSPC, HasSubstr("write f at 4194304")));
}

TEST(WriteExact, StopsTakingPiecesAfterAFailure) {
  int requests = 0;
  FaultyEngine engine([&requests](const Request&) -> std::int64_t {
    ++requests;
    return -EIO;
  });
  const std::vector<std::byte> data(40 * kPieceBytes);

  EXPECT_THAT([&] { run(write_exact(engine, 3, data, 0, "f")); }, FailsWithErrno(EIO, HasSubstr("at 0")));
  EXPECT_EQ(requests, 1);
}

TEST(WriteExact, NothingNeedsNoRequest) {
  FaultyEngine engine([](const Request&) -> std::int64_t { return -EIO; });

  EXPECT_NO_THROW(run(write_exact(engine, -1, {}, 0, "f")));
}

TEST(ReadExact, ContinuesAfterShortReads) {
  std::vector<std::byte> file = numbered(100);
  FaultyEngine engine = memory_engine(file, 9);
  std::vector<std::byte> read(90);

  run(read_exact(engine, 3, read, 10, "f"));

  EXPECT_TRUE(std::equal(read.begin(), read.end(), file.begin() + 10));
}

TEST(ReadExact, RefusesAFileThatEndsEarly) {
  std::vector<std::byte> file(100);
  FaultyEngine engine = memory_engine(file, 1000);
  std::vector<std::byte> read(101);

  EXPECT_THAT([&] { run(read_exact(engine, 3, read, 0, "f")); },
              Fails(Errc::io_failure, HasSubstr("read f at 100")));
}

TEST(SyncData, IsAskedOnlyOnce) {
  int requests = 0;
  FaultyEngine engine([&requests](const Request&) -> std::int64_t {
    ++requests;
    return -EINTR;
  });

  EXPECT_THAT([&] { run(sync_data(engine, 3, "f")); }, FailsWithErrno(EINTR, HasSubstr("fdatasync f")));
  EXPECT_EQ(requests, 1);
}

}  // namespace
}  // namespace cairn::io
