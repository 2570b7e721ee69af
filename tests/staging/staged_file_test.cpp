// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/staged_file.hpp"

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
#include "io/internal/durable_file.hpp"
#include "io/internal/file.hpp"
#include "staging/test_plane.hpp"
#include "support/fails.hpp"
#include "support/fake_device.hpp"
#include "support/noise.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace cairn::staging {
namespace {

using testing::eventually;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::noise;

using Bytes = std::vector<std::byte>;

/// Five runs, the last a short one: neither whole chunks nor whole pages.
constexpr std::size_t kSomeRuns = 4 * kBufferBytes + io::kChunkBytes + 12'345;

SourcePiece piece_of(std::span<const std::byte> bytes, std::uint64_t offset_bytes = 0) {
  SourcePiece piece;
  piece.offset_bytes = offset_bytes;
  piece.size_bytes = bytes.size();
  piece.data = bytes.data();
  return piece;
}

/// Bytes that nobody changes: they are read when their run is written.
class LastingSource final : public ByteSource {
 public:
  explicit LastingSource(Bytes bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] bool is_lasting() const override { return true; }
  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    std::memcpy(out.data(), bytes_.data() + offset_bytes, out.size());
  }

 private:
  Bytes bytes_;
};

/// Memory that direct writes can be made from, or from one byte behind.
class PageAligned {
 public:
  PageAligned(const Bytes& bytes, std::size_t shift)
      : memory_(bytes.size() + shift), bytes_(memory_.bytes().subspan(shift, bytes.size())) {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  AlignedMemory memory_;
  std::span<std::byte> bytes_;
};

class StagedFiles : public ::testing::Test {
 protected:
  explicit StagedFiles(std::size_t buffers = 0, std::size_t descriptors = 0) : test_(buffers, descriptors) {
    created_.set();
  }

  /// Whatever a test has begun comes to its end before what it uses goes.
  ~StagedFiles() override {
    test_.engine.release();
    test_.plane->helpers->cancel();
    test_.plane->helpers->wait();
  }

  std::shared_ptr<StagedFile> make(std::vector<SourcePiece> pieces, std::uint64_t bytes, Snapshot snapshot,
                                   std::string name = "data") {
    FileToWrite file;
    file.name = name;
    file.size_bytes = bytes;
    file.pieces = std::move(pieces);
    file.snapshot = snapshot;
    file.medium = medium_;
    file.may_create = created_;
    file.create = [this, name](const io::NewFileOptions& options) {
      return std::make_unique<io::DurableFile>(
          io::DurableFile::create(test_.engine, directory_of_file_, name, options));
    };
    return std::make_shared<StagedFile>(test_.plane, std::move(file));
  }

  std::shared_ptr<StagedFile> stage(std::vector<SourcePiece> pieces, std::uint64_t bytes, Snapshot snapshot) {
    auto file = make(std::move(pieces), bytes, snapshot);
    test_.run(StagedFile::stage(file));
    return file;
  }

  /// Ends the blocking phase as a save does, and finishes the file.
  io::FileDigest finish(std::shared_ptr<StagedFile> file) {
    test_.plane->prepared.set();
    return test_.run(StagedFile::finish(std::move(file)));
  }

  /// Whether the file holds `expected`, and the digest is that of them.
  void expect_file(const Bytes& expected, const io::FileDigest& digest) const {
    const std::string text = testing::read_text(directory_ / "data");
    const auto found = std::as_bytes(std::span(text));
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
    io::ChunkHasher hasher;
    hasher.update(expected);
    EXPECT_EQ(digest.chunks, hasher.finish("data").chunks);
    EXPECT_EQ(digest.size_bytes, expected.size());
    EXPECT_EQ(digest.path, "data");
    EXPECT_TRUE(test_.is_unused());
  }

  testing::TempDir directory_;
  TestPlane test_;
  io::Directory directory_of_file_ = io::Directory::open(test_.disk, directory_.path());
  async::Event created_;
  io::Medium medium_ = io::Medium::disk;
};

TEST_F(StagedFiles, HoldWhatThePiecesHoldAndZerosBetweenThem) {
  const Bytes first = noise(kBufferBytes + 100, 1);
  const Bytes second = noise(kBufferBytes, 2);
  const std::size_t gap = 2 * kBufferBytes - 17;
  Bytes expected = first;
  expected.resize(gap);
  expected.insert(expected.end(), second.begin(), second.end());
  expected.resize(expected.size() + 5000);

  const auto file = stage({piece_of(second, gap), piece_of(first)}, expected.size(), Snapshot::copy);

  expect_file(expected, finish(file));
}

TEST_F(StagedFiles, KeepWhatACopySawWhenTheCallerChangesItLater) {
  Bytes bytes = noise(kSomeRuns, 1);
  const Bytes seen = bytes;

  const auto file = stage({piece_of(bytes)}, bytes.size(), Snapshot::copy);
  std::fill(bytes.begin(), bytes.end(), std::byte{0x77});

  expect_file(seen, finish(file));
}

TEST_F(StagedFiles, HoldNothingWhenTheyAreEmpty) {
  for (const Snapshot snapshot : {Snapshot::copy, Snapshot::borrow}) {
    std::filesystem::remove(directory_ / "data");

    const auto file = stage({}, 0, snapshot);

    expect_file({}, finish(file));
  }
}

TEST_F(StagedFiles, AreWrittenStraightFromBorrowedMemoryThatIsAligned) {
  const PageAligned memory(noise(2 * kBufferBytes, 1), 0);

  const auto file = stage({piece_of(memory.bytes())}, memory.bytes().size(), Snapshot::borrow);

  expect_file({memory.bytes().begin(), memory.bytes().end()}, finish(file));
  EXPECT_EQ(test_.plane->buffers.allocated_bytes(), 0u);
  EXPECT_EQ(test_.engine.direct_requests, 2u);
}

TEST_F(StagedFiles, TakeABufferForBorrowedMemoryThatIsNot) {
  const PageAligned memory(noise(2 * kBufferBytes, 1), 1);

  const auto file = stage({piece_of(memory.bytes())}, memory.bytes().size(), Snapshot::borrow);

  expect_file({memory.bytes().begin(), memory.bytes().end()}, finish(file));
  EXPECT_GT(test_.plane->buffers.allocated_bytes(), 0u);
  EXPECT_EQ(test_.engine.direct_requests, 2u);
}

TEST_F(StagedFiles, AddWhatLastsWhenTheirRunsAreWritten) {
  const Bytes header = noise(1000, 1);
  const Bytes callers = noise(kBufferBytes, 2);
  Bytes expected = header;
  expected.insert(expected.end(), callers.begin(), callers.end());
  SourcePiece lasting;
  lasting.size_bytes = header.size();
  lasting.source = std::make_shared<LastingSource>(header);

  const auto file = stage({lasting, piece_of(callers, header.size())}, expected.size(), Snapshot::copy);

  expect_file(expected, finish(file));
}

TEST_F(StagedFiles, ReadWhatIsSharedLaterWhenTheRestIsCopied) {
  Bytes callers = noise(kBufferBytes, 1);
  Bytes shared = noise(2 * kBufferBytes, 2);
  Bytes expected = callers;
  SourcePiece later = piece_of(shared, callers.size());
  later.snapshot = Snapshot::share;
  const auto file = stage({piece_of(callers), later}, callers.size() + shared.size(), Snapshot::copy);

  std::fill(callers.begin(), callers.end(), std::byte{0});
  std::fill(shared.begin(), shared.end(), std::byte{3});

  expected.insert(expected.end(), shared.begin(), shared.end());
  expect_file(expected, finish(file));
}

TEST_F(StagedFiles, MayHoldBothInOneRun) {
  Bytes callers = noise(kBufferBytes + 100, 1);
  const Bytes shared = noise(1000, 2);
  Bytes expected = callers;
  expected.insert(expected.end(), shared.begin(), shared.end());
  SourcePiece later = piece_of(shared, callers.size());
  later.snapshot = Snapshot::share;
  const auto file = stage({piece_of(callers), later}, expected.size(), Snapshot::copy);

  test_.plane->blocking_gate.close();  // As at the end of the blocking phase, a moment before all know of it.
  std::fill(callers.begin(), callers.end(), std::byte{0});

  expect_file(expected, finish(file));
}

TEST_F(StagedFiles, CopyPiecesOfAFileThatBorrows) {
  const Bytes borrowed = noise(kBufferBytes + 100, 1);
  Bytes callers = noise(2 * kBufferBytes, 2);
  Bytes expected = borrowed;
  expected.insert(expected.end(), callers.begin(), callers.end());
  SourcePiece now = piece_of(callers, borrowed.size());
  now.snapshot = Snapshot::copy;
  const auto file = stage({piece_of(borrowed), now}, expected.size(), Snapshot::borrow);

  std::fill(callers.begin(), callers.end(), std::byte{0});

  expect_file(expected, finish(file));
}

TEST_F(StagedFiles, CopyArraysOnDevicesBeforeTheCallerGoesOn) {
  testing::FakeDevice device;
  const auto copier = device.copier();
  const Bytes bytes = noise(kBufferBytes + 5, 3);
  const auto memory = device.allocate(bytes.size());
  std::memcpy(device.seen(memory.get()), bytes.data(), bytes.size());
  SourcePiece piece;
  piece.size_bytes = bytes.size();
  piece.source = std::make_shared<DeviceSource>(DeviceRegion{copier.get(), memory.get()});

  const auto file = stage({piece}, bytes.size(), Snapshot::copy);
  const auto overwrite = [&] { std::memset(device.seen(memory.get()), 0x77, bytes.size()); };
  device.stream().push(overwrite);
  device.stream().record().wait();

  expect_file(bytes, finish(file));
}

TEST_F(StagedFiles, AreFilledWhereTheyLieInMemory) {
  medium_ = io::Medium::memory;
  const Bytes header = noise(1000, 1);
  Bytes callers = noise(3 * kBufferBytes + 100, 2);
  const Bytes shared = noise(kBufferBytes, 3);
  const std::size_t gap = 12'345;
  Bytes expected = header;
  expected.insert(expected.end(), callers.begin(), callers.end());
  expected.resize(expected.size() + gap);
  SourcePiece lasting;
  lasting.size_bytes = header.size();
  lasting.source = std::make_shared<LastingSource>(header);
  SourcePiece later = piece_of(shared, expected.size());
  later.snapshot = Snapshot::share;
  expected.insert(expected.end(), shared.begin(), shared.end());

  const auto file =
      stage({lasting, piece_of(callers, header.size()), later}, expected.size(), Snapshot::copy);
  std::fill(callers.begin(), callers.end(), std::byte{0x77});

  expect_file(expected, finish(file));
  EXPECT_EQ(test_.plane->buffers.allocated_bytes(), 0u);
  EXPECT_EQ(test_.engine.requests, 0u);
}

TEST_F(StagedFiles, AreFilledWhereTheyLieLaterWhenTheyBorrow) {
  medium_ = io::Medium::memory;
  const Bytes bytes = noise(kSomeRuns, 1);

  const auto file = stage({piece_of(bytes)}, bytes.size(), Snapshot::borrow);

  expect_file(bytes, finish(file));
  EXPECT_EQ(test_.plane->buffers.allocated_bytes(), 0u);
}

TEST_F(StagedFiles, HoldNoDescriptorsWhileTheyAreFilledWhereTheyLie) {
  medium_ = io::Medium::memory;
  const Bytes bytes = noise(kSomeRuns, 1);

  const auto file = stage({piece_of(bytes)}, bytes.size(), Snapshot::copy);

  EXPECT_EQ(test_.plane->files.taken(), 0u);
  expect_file(bytes, finish(file));
}

TEST_F(StagedFiles, FailAtOnceWhenThereIsNoMemoryToLieIn) {
  medium_ = io::Medium::memory;
  test_.disk.allocate_error = ENOSPC;
  const Bytes bytes = noise(kSomeRuns, 1);

  EXPECT_THAT([&] { stage({piece_of(bytes)}, bytes.size(), Snapshot::copy); },
              FailsWithErrno(ENOSPC, HasSubstr("data")));

  test_.plane->helpers->wait();
}

TEST_F(StagedFiles, RefusePiecesThatReachBeyondTheFile) {
  const Bytes bytes(10);

  EXPECT_THAT([&] { make({piece_of(bytes, 5)}, 14, Snapshot::copy); }, Fails(Errc::invalid_argument));
}

TEST_F(StagedFiles, FailWithTheEngineAndGiveAllBack) {
  const Bytes bytes = noise(kSomeRuns, 1);
  for (const Snapshot snapshot : {Snapshot::copy, Snapshot::borrow}) {
    std::filesystem::remove(directory_ / "data");
    test_.engine.error_of = [](const io::Request& request) {
      return request.operation == io::Operation::write && request.offset == 2 * kBufferBytes ? EIO : 0;
    };

    auto file = stage({piece_of(bytes)}, bytes.size(), snapshot);

    EXPECT_THAT([&] { static_cast<void>(finish(file)); }, FailsWithErrno(EIO, HasSubstr("data at 8388608")));
    test_.plane->helpers->wait();
    file.reset();
    EXPECT_TRUE(test_.is_unused());
  }
}

TEST_F(StagedFiles, FailWhenTheirSyncDoes) {
  test_.engine.error_of = [](const io::Request& request) {
    return request.operation == io::Operation::sync_data ? EIO : 0;
  };
  const Bytes bytes = noise(100, 1);

  const auto file = stage({piece_of(bytes)}, bytes.size(), Snapshot::copy);

  EXPECT_THAT([&] { static_cast<void>(finish(file)); }, FailsWithErrno(EIO, HasSubstr("fdatasync")));
}

TEST_F(StagedFiles, FailWithTheirDirectory) {
  const Bytes bytes = noise(kSomeRuns, 1);
  created_ = async::Event();
  auto file = stage({piece_of(bytes)}, bytes.size(), Snapshot::copy);

  created_.fail(std::make_exception_ptr(Error(Errc::already_exists, "the directory")));

  EXPECT_THAT([&] { static_cast<void>(finish(file)); }, Fails(Errc::already_exists));
  test_.plane->helpers->wait();
  file.reset();
  EXPECT_TRUE(test_.is_unused());
}

TEST_F(StagedFiles, DoNotReadBorrowedMemoryThatIsTheCallersAgain) {
  const Bytes bytes = noise(kSomeRuns, 1);
  const auto file = stage({piece_of(bytes)}, bytes.size(), Snapshot::borrow);

  test_.plane->background_gate.close();

  EXPECT_THAT([&] { static_cast<void>(finish(file)); }, Fails(Errc::cancelled));
}

TEST_F(StagedFiles, DoNotCopyMemoryThatIsTheCallersAgain) {
  const Bytes bytes = noise(kSomeRuns, 1);
  test_.plane->blocking_gate.close();

  EXPECT_THAT([&] { stage({piece_of(bytes)}, bytes.size(), Snapshot::copy); }, Fails(Errc::cancelled));
}

TEST_F(StagedFiles, KeepTheirDescriptorsWhileTheyAreBeingOpened) {
  const Bytes bytes = noise(100, 1);
  async::Event opening;
  async::Event may_open;
  FileToWrite plan;
  plan.name = "data";
  plan.size_bytes = bytes.size();
  plan.pieces = {piece_of(bytes)};
  plan.may_create = created_;
  plan.create = [&](const io::NewFileOptions& options) {
    opening.set();
    may_open.get();
    return std::make_unique<io::DurableFile>(
        io::DurableFile::create(test_.engine, directory_of_file_, "data", options));
  };
  auto file = std::make_shared<StagedFile>(test_.plane, std::move(plan));
  test_.run(StagedFile::stage(file));
  opening.get();

  test_.plane->helpers->cancel();
  file.reset();
  EXPECT_EQ(test_.plane->files.taken(), 1u);
  may_open.set();

  test_.plane->helpers->wait();
  EXPECT_TRUE(eventually([this] { return test_.is_unused(); }));
}

TEST_F(StagedFiles, KeepTheirBuffersWhileTheKernelReadsThem) {
  const Bytes bytes = noise(2 * kBufferBytes, 1);
  test_.engine.hold();
  auto file = stage({piece_of(bytes)}, bytes.size(), Snapshot::copy);
  ASSERT_TRUE(eventually([this] { return test_.engine.held() == 2; }));

  test_.plane->helpers->cancel();
  file.reset();
  EXPECT_EQ(test_.plane->buffers.leased_bytes(), 2 * kBufferBytes);
  test_.engine.release();

  test_.plane->helpers->wait();
  EXPECT_TRUE(eventually([this] { return test_.is_unused(); }));
}

TEST_F(StagedFiles, ShareBuffersWhereTheyAreSmall) {
  const Bytes bytes = noise(1000, 1);
  test_.engine.hold();
  std::vector<std::shared_ptr<StagedFile>> files;
  for (int i = 0; i < 100; ++i) {
    files.push_back(make({piece_of(bytes)}, bytes.size(), Snapshot::copy, "data" + std::to_string(i)));
    test_.run(StagedFile::stage(files.back()));
  }

  EXPECT_EQ(test_.plane->buffers.leased_bytes(), 2 * kBufferBytes);  // 64 in one.
  test_.engine.release();
  for (const auto& file : files) {
    EXPECT_EQ(finish(file).size_bytes, 1000u);
  }
  EXPECT_TRUE(test_.is_unused());
}

class StagedFilesOfFewBuffers : public StagedFiles {
 protected:
  StagedFilesOfFewBuffers() : StagedFiles(2) {}
};

TEST_F(StagedFilesOfFewBuffers, StreamThroughThem) {
  const Bytes bytes = noise(kSomeRuns, 1);
  for (const Snapshot snapshot : {Snapshot::copy, Snapshot::borrow}) {
    std::filesystem::remove(directory_ / "data");

    const auto file = stage({piece_of(bytes)}, bytes.size(), snapshot);

    expect_file(bytes, finish(file));
    EXPECT_LE(test_.plane->buffers.allocated_bytes(), 2 * kBufferBytes);
  }
}

TEST_F(StagedFilesOfFewBuffers, MayLieInSeveralPlacesOfThem) {
  const Bytes bytes = noise(2 * io::kChunkBytes + 12'345, 1);
  for (const Snapshot snapshot : {Snapshot::copy, Snapshot::borrow}) {
    std::filesystem::remove(directory_ / "data");
    std::vector<RunMemory> slots(2 * kBufferBytes / kSlotBytes);
    for (RunMemory& slot : slots) {
      slot = test_.plane->try_acquire_run(1);
    }
    for (std::size_t i = 0; i < slots.size(); i += 2) {
      slots[i].release();
    }

    const auto file = stage({piece_of(bytes)}, bytes.size(), snapshot);
    const io::FileDigest digest = finish(file);
    slots.clear();

    expect_file(bytes, digest);
  }
}

class StagedFilesOfOneDescriptor : public StagedFiles {
 protected:
  StagedFilesOfOneDescriptor() : StagedFiles(0, 1) {}
};

TEST_F(StagedFilesOfOneDescriptor, EndBeforeTheyAreAskedToWhenSomebodyWaitsForIt) {
  const Bytes bytes = noise(100, 1);
  const auto first = make({piece_of(bytes)}, bytes.size(), Snapshot::copy, "first");
  const auto second = make({piece_of(bytes)}, bytes.size(), Snapshot::copy, "second");

  test_.run(StagedFile::stage(first));
  test_.run(StagedFile::stage(second));

  EXPECT_EQ(finish(second).size_bytes, 100u);
  EXPECT_EQ(finish(first).size_bytes, 100u);
  EXPECT_TRUE(test_.is_unused());
}

}  // namespace
}  // namespace cairn::staging
