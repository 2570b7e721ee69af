// SPDX-License-Identifier: Apache-2.0
// What small loads do not do: take staging buffers.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "io/internal/syscalls.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"
#include "support/unsynced_syscalls.hpp"

namespace cairn {
namespace {

using testing::AbstractBlob;
using testing::Blob;
using testing::BlobHandler;
using testing::make_blob;

constexpr std::size_t kSomeSize = (std::size_t{5} << 20) + 17;

/// Loads blobs into two places each.
class HalvesHandler final : public BlobHandler {
 public:
  Awaitable<Background<Blob>> load(LoadContext context, std::optional<AbstractBlob>) const override {
    co_return read_halves(std::move(context));
  }

 private:
  static Background<Blob> read_halves(LoadContext context) {
    const std::size_t size = context.file_bytes("blob.bin").value_or(0);
    std::vector<std::byte> front(size / 2);
    std::vector<std::byte> back(size - front.size());
    std::vector<DestinationPiece> pieces(2);
    pieces[0].data = front.data();
    pieces[0].size_bytes = front.size();
    pieces[1].data = back.data();
    pieces[1].offset_bytes = front.size();
    pieces[1].size_bytes = back.size();
    co_await context.read_pieces("blob.bin", std::move(pieces));
    front.insert(front.end(), back.begin(), back.end());
    co_return Blob(std::move(front));
  }
};

void put_out_of_cache(const std::filesystem::path& root) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

/// Says whether the files that are loaded are in the page cache, where they can be put out of it.
class SmallReads : public ::testing::TestWithParam<bool> {
 protected:
  void save(std::size_t count, std::size_t bytes) {
    Checkpointables items;
    for (std::size_t i = 0; i < count; ++i) {
      blobs_.push_back(make_blob(bytes, i));
      items.push_back({fmt::format("item{}", i), blobs_.back()});
    }
    ContextOptions options;
    if (GetParam()) {  // Only what is on the disk can be put out of the cache.
      options.syscalls = std::make_shared<testing::UnsyncedSyscalls>();
    }
    const Context context(options);
    core::start_save(directory_ / "step", items, testing::blob_registry(), SaveOptions(), context).wait();
    if (!GetParam()) {
      put_out_of_cache(directory_ / "step");
    }
  }

  /// Loads with a fresh context; returns what it took of staging memory.
  std::uint64_t load(const RegistrySnapshot& registry) {
    const Context context;
    Loaded loaded = core::start_load(directory_ / "step", {}, registry, LoadOptions(), context).wait();
    for (std::size_t i = 0; i < blobs_.size(); ++i) {
      EXPECT_EQ(loaded.take<Blob>(fmt::format("item{}", i)), blobs_[i]) << i;
    }
    EXPECT_EQ(context.pool_bytes() == 0, loaded.result().pool.peak_bytes == 0);
    return loaded.result().pool.peak_bytes;
  }

  static RegistrySnapshot halves() {
    HandlerRegistry registry;
    registry.add<HalvesHandler>();
    return registry.snapshot();
  }

  testing::TempDir directory_;
  std::deque<Blob> blobs_;
};

TEST_P(SmallReads, OfOnePlaceTakeNoStagingMemory) {
  save(100, 10);

  EXPECT_EQ(load(testing::blob_registry()), 0u);
}

TEST_P(SmallReads, OfOnePlaceAndSomeSizeTakeNoStagingMemory) {
  save(3, kSomeSize);

  EXPECT_EQ(load(testing::blob_registry()), 0u);
}

TEST_P(SmallReads, OfSeveralPlacesTakeNoStagingMemory) {
  save(40, 1001);

  EXPECT_EQ(load(halves()), 0u);
}

TEST_P(SmallReads, OfSeveralPlacesAndSomeSizeDo) {
  save(1, kSomeSize);

  EXPECT_GT(load(halves()), 0u);
}

/// Counts the system calls of a file system.
class CountedCalls final : public testing::UnsyncedSyscalls {
 public:
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    ++calls;
    return ForwardingSyscalls::open_beneath(directory, path, flags, mode);
  }
  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    ++calls;
    return ForwardingSyscalls::read_at(fd, data, size, offset);
  }
  int status(int fd, io::FileStatus& status) noexcept override {
    ++calls;
    return ForwardingSyscalls::status(fd, status);
  }
  int status_at(int directory, const char* name, io::FileStatus& status) noexcept override {
    ++calls;
    return ForwardingSyscalls::status_at(directory, name, status);
  }
  int list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept override {
    ++calls;
    return ForwardingSyscalls::list(directory, entries);
  }

  std::atomic<std::uint64_t> calls{0};
};

TEST(LoadsOfManyFiles, TakeTenTimesAsManySystemCallsForTenTimesAsMany) {
  std::vector<std::uint64_t> counted;
  for (const std::size_t count : {20, 200}) {
    const testing::TempDir directory;
    const Blob blob = make_blob(10);
    Checkpointables items;
    for (std::size_t i = 0; i < count; ++i) {
      items.push_back({fmt::format("item{}", i), blob});
    }
    const auto calls = std::make_shared<CountedCalls>();
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.syscalls = calls;
    const Context context(options);
    core::start_save(directory / "step", items, testing::blob_registry(), SaveOptions(), context).wait();
    calls->calls = 0;

    static_cast<void>(
        core::start_load(directory / "step", {}, testing::blob_registry(), LoadOptions(), context).wait());

    counted.push_back(calls->calls);
  }
  EXPECT_LE(counted[1], counted[0] * 10);
}

INSTANTIATE_TEST_SUITE_P(Files, SmallReads, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Cached" : "Cold"; });

}  // namespace
}  // namespace cairn
