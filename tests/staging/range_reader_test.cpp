// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/range_reader.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "base/internal/aligned_memory.hpp"
#include "io/internal/disk_file.hpp"
#include "io/internal/page_cache.hpp"
#include "staging/internal/device_pieces.hpp"
#include "staging/test_plane.hpp"
#include "support/fails.hpp"
#include "support/fake_device.hpp"
#include "support/memory_file.hpp"
#include "support/noise.hpp"
#include "support/temp_dir.hpp"

namespace cairn::staging {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::noise;

using Bytes = std::vector<std::byte>;

/// Several runs, and a last chunk that is neither a whole one nor of whole pages; large enough for direct reads.
constexpr std::size_t kFileOfRuns = 2 * kBufferBytes + io::kChunkBytes + 12'345;

/// Keeps what it is given.
class KeepingSink final : public ByteSink {
 public:
  explicit KeepingSink(std::size_t size) : bytes(size) {}
  void write(std::uint64_t offset_bytes, std::span<const std::byte> in) override {
    std::copy(in.begin(), in.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset_bytes));
  }

  Bytes bytes;
};

DestinationPiece piece_to(std::span<std::byte> memory, std::uint64_t offset_bytes) {
  DestinationPiece piece;
  piece.offset_bytes = offset_bytes;
  piece.size_bytes = memory.size();
  piece.data = memory.data();
  return piece;
}

class RangeReaders : public ::testing::Test {
 protected:
  void write(Bytes bytes) {
    content_ = std::move(bytes);
    io::ChunkHasher hasher;
    hasher.update(content_);
    digest_ = hasher.finish("data");
    overwrite(content_);
  }

  void overwrite(const Bytes& bytes) const {
    testing::write_text(directory_ / "data", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  void damage(std::size_t position) const {
    Bytes bytes = content_;
    bytes[position] ^= std::byte{1};
    overwrite(bytes);
  }

  /// Puts the file out of the page cache; false where that cannot be.
  [[nodiscard]] bool make_cold() const {
    const int fd = ::open((directory_ / "data").c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const bool is_cold = !io::seems_cached(fd, content_.size());
    ::close(fd);
    return is_cold;
  }

  [[nodiscard]] FileToRead file() {
    FileToRead file;
    file.name = "data";
    file.path = directory_ / "data";
    file.size_bytes = content_.size();
    file.open = [this, path = file.path, size = file.size_bytes](io::Engine& engine, bool use_direct) {
      const auto open = [this](int flags) { return directory_of_file_.open_file("data", flags); };
      return std::make_unique<io::DiskFile>(engine, path, size, use_direct, open);
    };
    file.digest = [this] { return digest_; };
    return file;
  }

  void read(std::vector<DestinationPiece> pieces) { read(file(), std::move(pieces)); }
  void read(FileToRead file, std::vector<DestinationPiece> pieces) {
    RangeReader reader(*test_.plane, std::move(file), std::move(pieces));
    test_.run(reader.read());
  }

  /// Reads a range to one place.
  Bytes read(std::size_t begin, std::size_t bytes) {
    Bytes found(bytes);
    read({piece_to(found, begin)});
    return found;
  }

  [[nodiscard]] Bytes content(std::size_t begin, std::size_t bytes) const {
    const auto first = content_.begin() + static_cast<std::ptrdiff_t>(begin);
    return {first, first + static_cast<std::ptrdiff_t>(bytes)};
  }

  [[nodiscard]] Report report() const {
    Report report;
    test_.meter.fill_numbers(report);
    test_.meter.fill_words(report);
    return report;
  }

  testing::TempDir directory_;
  TestPlane test_;
  io::Directory directory_of_file_ = io::Directory::open(test_.disk, directory_.path());
  Bytes content_;
  std::optional<io::FileDigest> digest_;
};

constexpr const char* kStaysCached = "files of this file system do not leave the page cache";

/// Both ways: from the page cache, and past it.
class RangeReadersBothWays : public RangeReaders, public ::testing::WithParamInterface<bool> {
 protected:
  void prepare() {
    if (GetParam() && !make_cold()) {
      GTEST_SKIP() << kStaysCached;
    }
  }
};

TEST_P(RangeReadersBothWays, ReadAWholeFileToOnePlace) {
  for (const std::size_t size : {kFileOfRuns, std::size_t{1}}) {
    write(noise(size));
    prepare();

    EXPECT_EQ(read(0, size), content_);
    EXPECT_EQ(test_.plane->read_bytes, size);
    EXPECT_TRUE(test_.is_unused());
    test_.plane->read_bytes = 0;
  }
}

TEST_P(RangeReadersBothWays, ReadARangeInsideAChunkAndVerifyAllOfTheChunk) {
  write(noise(kFileOfRuns));
  prepare();

  EXPECT_EQ(read(io::kChunkBytes + 100, 1000), content(io::kChunkBytes + 100, 1000));
  EXPECT_EQ(test_.plane->read_bytes, io::kChunkBytes);

  damage(2 * io::kChunkBytes - 1);
  prepare();
  EXPECT_THAT([&] { read(io::kChunkBytes + 100, 1000); }, Fails(Errc::checksum_mismatch));
}

TEST_P(RangeReadersBothWays, ReadARunThatBelongsToSeveralPlaces) {
  write(noise(kFileOfRuns));
  prepare();
  Bytes first(100);
  Bytes second(kBufferBytes + 5);
  const auto sink = std::make_shared<KeepingSink>(50);
  DestinationPiece to_sink;
  to_sink.offset_bytes = 110;
  to_sink.size_bytes = sink->bytes.size();
  to_sink.sink = sink;

  read({piece_to(second, 200), piece_to(first, 3), to_sink});

  EXPECT_EQ(first, content(3, first.size()));
  EXPECT_EQ(second, content(200, second.size()));
  EXPECT_EQ(sink->bytes, content(110, sink->bytes.size()));
  EXPECT_TRUE(test_.is_unused());
}

TEST_P(RangeReadersBothWays, FillArraysOnDevices) {
  testing::FakeDevice device;
  const auto copier = device.copier();
  write(noise(kBufferBytes + 5));
  prepare();
  const auto memory = device.allocate(content_.size());
  DestinationPiece piece;
  piece.size_bytes = content_.size();
  piece.sink = std::make_shared<DeviceSink>(DeviceRegion{copier.get(), memory.get()});

  read({piece});

  EXPECT_EQ(std::memcmp(device.seen(memory.get()), content_.data(), content_.size()), 0);
}

TEST_P(RangeReadersBothWays, NameTheFileAndTheChunkThatIsDamaged) {
  write(noise(kFileOfRuns));
  damage(kBufferBytes + 3 * io::kChunkBytes);
  prepare();

  EXPECT_THAT([&] { read(0, kFileOfRuns); },
              Fails(Errc::checksum_mismatch, AllOf(HasSubstr((directory_ / "data").string()),
                                                   HasSubstr("chunk 7 (bytes 7340032 to 8388608)"))));
  EXPECT_TRUE(test_.is_unused());
}

TEST_P(RangeReadersBothWays, DoNotSeeDamageWhereTheyDoNotRead) {
  write(noise(kFileOfRuns));
  damage(0);
  prepare();

  EXPECT_EQ(read(io::kChunkBytes, 10), content(io::kChunkBytes, 10));
}

TEST_P(RangeReadersBothWays, ReadNoMoreThanIsAskedForWhereNothingIsVerified) {
  write(noise(1000));
  digest_.reset();
  damage(0);
  prepare();

  EXPECT_EQ(read(1, 5), content(1, 5));
  EXPECT_EQ(test_.plane->read_bytes, 5u);
}

TEST_P(RangeReadersBothWays, FailWhereTheFileEndsBefore) {
  write(noise(kFileOfRuns));
  FileToRead file = this->file();
  testing::write_text(directory_ / "data", std::string(kBufferBytes + 10, 'x'));
  content_.resize(kBufferBytes + 10);
  prepare();
  Bytes found(kFileOfRuns - kBufferBytes);

  EXPECT_THAT([&] { read(std::move(file), {piece_to(found, kBufferBytes)}); },
              Fails(Errc::io_failure, HasSubstr("the file ends")));
  EXPECT_TRUE(test_.is_unused());
}

TEST_P(RangeReadersBothWays, DoNotWriteToMemoryThatIsTheCallersAgain) {
  write(noise(1000));
  prepare();
  test_.plane->blocking_gate.close();

  EXPECT_THAT([&] { read(0, 1000); }, Fails(Errc::cancelled));
}

INSTANTIATE_TEST_SUITE_P(Files, RangeReadersBothWays, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Cold" : "Cached"; });

TEST_F(RangeReaders, ReadNothingOfAnEmptyFile) {
  write({});

  read({});

  EXPECT_EQ(test_.plane->read_bytes, 0u);
  EXPECT_TRUE(test_.is_unused());
}

TEST_F(RangeReaders, RefusePiecesThatOverlap) {
  write(noise(100));
  Bytes memory(20);

  EXPECT_THAT([&] { read({piece_to(memory, 0), piece_to(memory, 10)}); }, Fails(Errc::invalid_argument));
}

TEST_F(RangeReaders, CountWhatTheyCopyFromThePageCache) {
  write(noise(kFileOfRuns));
  struct statfs file_system {};
  ASSERT_EQ(::statfs((directory_ / "data").c_str(), &file_system), 0);
  if (file_system.f_type == TMPFS_MAGIC) {
    GTEST_SKIP() << "a tmpfs does not tell what is cached";
  }

  static_cast<void>(read(0, kFileOfRuns));

  EXPECT_EQ(test_.plane->cached_bytes, kFileOfRuns);
  EXPECT_EQ(test_.engine.requests, 0u);
}

TEST_F(RangeReaders, VerifyAndCopyAFileInMemoryWhereItLies) {
  write(noise(kFileOfRuns));
  FileToRead file = this->file();
  file.open = [this](io::Engine&, bool) {
    return std::make_unique<testing::StoredInMemory>(std::make_shared<const Bytes>(content_));
  };
  Bytes head(10);
  Bytes tail(kFileOfRuns - kBufferBytes);

  read(file, {piece_to(head, 3), piece_to(tail, kBufferBytes)});

  EXPECT_EQ(head, content(3, 10));
  EXPECT_EQ(tail, content(kBufferBytes, tail.size()));
  EXPECT_EQ(test_.engine.requests, 0u);
  EXPECT_EQ(test_.plane->buffers.allocated_bytes(), 0u);
  content_[0] ^= std::byte{1};
  EXPECT_THAT([&] { read(file, {piece_to(head, 3)}); },
              Fails(Errc::checksum_mismatch, HasSubstr("chunk 0 (bytes 0 to 1048576)")));
}

/// A file that is read past the page cache.
class DirectRangeReaders : public RangeReaders {
 protected:
  void SetUp() override {
    write(noise(kFileOfRuns));
    if (!make_cold()) {
      GTEST_SKIP() << kStaysCached;
    }
  }
};

TEST_F(DirectRangeReaders, ReadStraightToAPlaceThatIsAligned) {
  const AlignedMemory memory(2 * kBufferBytes);

  read({piece_to(memory.bytes(), 0)});

  EXPECT_EQ(Bytes(memory.bytes().begin(), memory.bytes().end()), content(0, memory.size()));
  EXPECT_EQ(test_.plane->buffers.allocated_bytes(), 0u);
  EXPECT_EQ(test_.engine.direct_requests, 2u);
  EXPECT_EQ(report().direct_bytes, memory.size());
  EXPECT_THAT(report().fallbacks, IsEmpty());
}

TEST_F(DirectRangeReaders, TakeABufferForAPlaceThatIsNot) {
  const AlignedMemory memory(kBufferBytes + 1);

  read({piece_to(memory.bytes().subspan(1, kBufferBytes), 0)});

  EXPECT_GT(test_.plane->buffers.allocated_bytes(), 0u);
  EXPECT_EQ(test_.engine.direct_requests, 1u);
}

TEST_F(DirectRangeReaders, GoThroughTheCacheWhereTheDiskRefusesAReadThatItWasOpenedFor) {
  test_.engine.error_of = [](const io::Request& request) { return request.is_direct ? EINVAL : 0; };

  EXPECT_EQ(read(0, kFileOfRuns), content_);

  EXPECT_EQ(report().direct_bytes, 0u);
  EXPECT_THAT(report().fallbacks, Contains(HasSubstr("the file system refuses O_DIRECT; read")));
}

TEST_F(DirectRangeReaders, GoThroughTheCacheWhereThereIsNoSecondDescriptor) {
  test_.disk.direct_open_error = EMFILE;

  EXPECT_EQ(read(0, kFileOfRuns), content_);

  EXPECT_EQ(test_.engine.direct_requests, 0u);
  EXPECT_THAT(report().fallbacks, Contains(HasSubstr("Too many open files")));
}

TEST_F(DirectRangeReaders, FailWithTheEngineAndGiveAllBack) {
  test_.engine.error_of = [](const io::Request& request) { return request.offset == kBufferBytes ? EIO : 0; };

  EXPECT_THAT([&] { read(0, kFileOfRuns); }, FailsWithErrno(EIO, HasSubstr("data at 4194304")));
  EXPECT_TRUE(test_.is_unused());
}

TEST_F(DirectRangeReaders, OpenNoSecondDescriptorForALittle) {
  static_cast<void>(read(0, 100));

  EXPECT_EQ(test_.engine.direct_requests, 0u);
}

}  // namespace
}  // namespace cairn::staging
