// SPDX-License-Identifier: Apache-2.0
// Saves and loads of more files than a process may have open.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "base/internal/limits.hpp"
#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using testing::AbstractBlob;
using testing::Blob;
using testing::BlobHandler;
using testing::make_blob;

constexpr std::size_t kFileMiB = std::size_t{1} << 20;

/// Counts the descriptors of blobs that are open at once.
class CountedFiles : public testing::ForwardingSyscalls {
 public:
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    const int fd = ForwardingSyscalls::open_beneath(directory, path, flags, mode);
    if (fd >= 0 && std::string_view(path).ends_with(".bin")) {
      const std::lock_guard lock(mutex_);
      open_[fd] = true;
      most_ = std::max(most_, open_.size());
      ++opened_;
    }
    return fd;
  }

  int close(int fd) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      open_.erase(fd);
    }
    return ForwardingSyscalls::close(fd);
  }

  [[nodiscard]] std::size_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  [[nodiscard]] std::size_t opened() const {
    const std::lock_guard lock(mutex_);
    return opened_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<int, bool> open_;
  std::size_t most_ = 0;
  std::size_t opened_ = 0;
};

/// Writes two files of pieces, and awaits first the end of one whose writing begins last.
class TwoFilesHandler final : public CheckpointableHandler<Blob, AbstractBlob> {
 public:
  std::string_view id() const noexcept override { return "test.two-files/1"; }

  Awaitable<Background<>> save(SaveContext context, const Blob& blob) const override {
    return stage(std::move(context), &blob);
  }

  Awaitable<Background<Blob>> load(LoadContext context, std::optional<AbstractBlob>) const override {
    co_return read(std::move(context));
  }

  Awaitable<AbstractBlob> metadata(LoadContext) const override { co_return AbstractBlob(); }

 private:
  // outlives: the value is the caller's until the blocking phase is over.
  static Awaitable<Background<>> stage(SaveContext context, const Blob* blob) {
    std::vector<SourcePiece> pieces(1);
    pieces[0].data = blob->bytes.data();
    pieces[0].size_bytes = blob->bytes.size();
    std::vector<SourcePiece> same = pieces;
    Background<> first = co_await context.write_pieces("1.bin", std::move(pieces), blob->bytes.size());
    Background<> second = co_await context.write_pieces("2.bin", std::move(same), blob->bytes.size());
    co_return finish(std::move(context), std::move(first), std::move(second));
  }

  static Background<> finish(SaveContext context, Background<> first, Background<> second) {
    co_await context.write_file("3.bin", "the last");
    co_await std::move(second);
    co_await std::move(first);
  }

  static Background<Blob> read(LoadContext context) {
    const std::string text = co_await context.read_file("2.bin");
    const auto bytes = std::as_bytes(std::span(text));
    co_return Blob(std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
};

/// Blobs that differ, and the list of them that a save takes.
struct ManyBlobs {
  ManyBlobs(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      blobs.push_back(make_blob(bytes, i));
      items.push_back({fmt::format("item{}", i), blobs.back()});
    }
  }

  std::deque<Blob> blobs;
  Checkpointables items;
};

class FewOpenFiles : public ::testing::TestWithParam<Snapshot> {
 protected:
  ContextOptions few(std::size_t files) const {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.staging_bytes = 8 * kFileMiB;
    options.open_files = files;
    options.syscalls = calls_;
    return options;
  }

  void save_and_load(const Context& context, const ManyBlobs& many, const RegistrySnapshot& registry) {
    SaveOptions options;
    options.snapshot = GetParam();
    core::start_save(directory_ / "step", many.items, registry, options, context).wait();
    Loaded loaded = core::start_load(directory_ / "step", {}, registry, LoadOptions(), context).wait();
    for (std::size_t i = 0; i < many.blobs.size(); ++i) {
      ASSERT_EQ(loaded.take<Blob>(fmt::format("item{}", i)), many.blobs[i]) << i;
    }
  }

  testing::TempDir directory_;
  std::shared_ptr<CountedFiles> calls_ = std::make_shared<CountedFiles>();
};

TEST_P(FewOpenFiles, AreEnoughForManyCheckpointables) {
  const Context context(few(2));

  save_and_load(context, ManyBlobs(300, 100), testing::blob_registry());

  EXPECT_LE(calls_->most(), 2u);
  EXPECT_GE(calls_->opened(), 600u);
}

TEST_P(FewOpenFiles, AreEnoughForFilesOfTwoDescriptors) {
  const ManyBlobs many(6, 9 * kFileMiB);  // Each more than the byte budget.
  for (const std::size_t budget : {1, 2, 3}) {
    std::filesystem::remove_all(directory_ / "step");
    const Context context(few(budget));

    save_and_load(context, many, testing::blob_registry());

    EXPECT_LE(calls_->most(), std::max<std::size_t>(budget, 2)) << budget;
  }
}

TEST_P(FewOpenFiles, AreEnoughForHandlersThatWaitForTheWrongOne) {
  HandlerRegistry registry;
  registry.add<TwoFilesHandler>();
  const Context context(few(2));

  save_and_load(context, ManyBlobs(40, 1000), registry.snapshot());

  EXPECT_LE(calls_->most(), 2u);
}

TEST_P(FewOpenFiles, AreSharedBySavesThatRunAtTheSameTimeAndEachHasOneOfItsOwn) {
  constexpr std::size_t kSaves = 6;
  const Context context(few(3));
  SaveOptions options;
  options.snapshot = GetParam();
  options.return_when_accepted = true;
  const ManyBlobs many(50, 5000);
  std::vector<AsyncResponse> saves;
  for (std::size_t i = 0; i < kSaves; ++i) {
    saves.push_back(core::start_save(directory_ / fmt::format("step{}", i), many.items,
                                     testing::blob_registry(), options, context));
  }

  for (AsyncResponse& save : saves) {
    EXPECT_EQ(save.wait().files, 50u);
  }
  EXPECT_LE(calls_->most(), 3u + kSaves);
}

/// A disk that is full, from the first byte of a blob or when it is made.
class FullDisk final : public testing::ForwardingSyscalls {
 public:
  explicit FullDisk(bool makes_files) : makes_files_(makes_files) {}

  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    if (!makes_files_ && (flags & O_CREAT) != 0 && std::string_view(path).ends_with(".bin")) {
      return -ENOSPC;
    }
    return ForwardingSyscalls::open_beneath(directory, path, flags, mode);
  }

  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override {
    return size >= kBlob ? -ENOSPC : ForwardingSyscalls::write_at(fd, data, size, offset);
  }

  static constexpr std::size_t kBlob = 100'000;  // More than anything else that a save writes here.

 private:
  const bool makes_files_;
};

TEST_P(FewOpenFiles, AreGivenBackWhenTheirWritingFails) {
  for (const bool makes_files : {false, true}) {
    ContextOptions few_files = few(2);
    few_files.syscalls = std::make_shared<FullDisk>(makes_files);
    const Context context(few_files);
    const ManyBlobs many(20, FullDisk::kBlob);
    SaveOptions options;
    options.snapshot = GetParam();
    options.deadline = std::chrono::seconds(60);  // For one that waits for ever.

    EXPECT_THAT(
        [&] {
          core::start_save(directory_ / "step", many.items, testing::blob_registry(), options, context)
              .wait();
        },
        testing::FailsWithErrno(ENOSPC, ::testing::HasSubstr("step")));

    EXPECT_THAT(testing::list_tree(directory_.path()), ::testing::IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Snapshots, FewOpenFiles, ::testing::Values(Snapshot::copy, Snapshot::borrow),
                         [](const auto& each) { return each.param == Snapshot::copy ? "copy" : "borrow"; });

/// Holds back the syncs of blobs until the test allows them.
class HeldSyncs final : public testing::ForwardingSyscalls {
 public:
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    const int fd = ForwardingSyscalls::open_beneath(directory, path, flags, mode);
    if (std::string_view(path).ends_with(".bin")) {
      const std::lock_guard lock(mutex_);
      blobs_.insert(fd);
    }
    return fd;
  }

  int sync_data(int fd) noexcept override {
    const bool is_blob = [&] {
      const std::lock_guard lock(mutex_);
      return blobs_.contains(fd);
    }();
    if (is_blob) {
      released.get();
    }
    return ForwardingSyscalls::sync_data(fd);
  }

  async::Event released;

 private:
  std::mutex mutex_;
  std::set<int> blobs_;
};

TEST(EnoughOpenFiles, LetTheCallerGoOnBeforeAnythingIsSynced) {
  const testing::TempDir directory;
  const auto calls = std::make_shared<HeldSyncs>();
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.syscalls = calls;
  options.open_files = 20;
  const Context context(options);

  const ManyBlobs many(20, 100);

  const AsyncResponse saving =
      core::start_save(directory / "step", many.items, testing::blob_registry(), SaveOptions(), context);

  EXPECT_FALSE(saving.is_done());
  calls->released.set();
  EXPECT_EQ(saving.wait().files, 20u);
}

/// A disk that opens the first blob, and does not say so until the test allows it.
class HeldOpening final : public CountedFiles {
 public:
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    const int fd = CountedFiles::open_beneath(directory, path, flags, mode);
    if ((flags & O_CREAT) != 0 && std::string_view(path).ends_with(".bin") && opened() == 1) {
      opening.set();
      released.get();
    }
    return fd;
  }

  async::Event opening;
  async::Event released;
};

TEST(CancelledSave, KeepsThePlaceOfAFileThatIsBeingOpened) {
  const testing::TempDir directory;
  const auto calls = std::make_shared<HeldOpening>();
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.syscalls = calls;
  options.open_files = 3;
  options.stop_grace = std::chrono::milliseconds(10);
  const Context context(options);
  const ManyBlobs one(1, 100);
  const ManyBlobs many(20, 100);
  SaveOptions at_once;
  at_once.return_when_accepted = true;

  AsyncResponse first =
      core::start_save(directory / "first", one.items, testing::blob_registry(), at_once, context);
  calls->opening.get();
  first.cancel();
  EXPECT_THAT([&] { first.wait(); }, testing::Fails(Errc::cancelled));
  AsyncResponse second =
      core::start_save(directory / "second", many.items, testing::blob_registry(), at_once, context);

  EXPECT_EQ(second.wait().files, 20u);
  EXPECT_LE(calls->most(), 3u);
  calls->released.set();
}

/// Runs `work` in a child process that may open only a few files; returns what it exits with.
template <class Work>
int in_child_with_descriptors(std::size_t spare, Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      const rlimit limit{static_cast<rlim_t>(next) + spare, static_cast<rlim_t>(next) + spare};
      ::close(next);
      status = ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? work() : 2;
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "%.2000s\n", failure.what());
    }
    ::_exit(status);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(LowDescriptorLimit, SavesAndLoadsMoreCheckpointablesThanThereAreDescriptors) {
  for (const io::EngineKind engine : {io::EngineKind::threads, io::EngineKind::automatic}) {
    const testing::TempDir directory;
    const int status = in_child_with_descriptors(100, [&] {
      ContextOptions options;
      options.engine = engine;
      const Context context(options);
      const RegistrySnapshot registry = testing::blob_registry();
      const ManyBlobs many(400, 300);
      core::start_save(directory / "step", many.items, registry, SaveOptions(), context).wait();
      Loaded loaded = core::start_load(directory / "step", {}, registry, LoadOptions(), context).wait();
      return loaded.take<Blob>("item399") == many.blobs[399] ? 0 : 3;
    });
    EXPECT_EQ(status, 0);
  }
}

TEST(DefaultOpenFiles, AreHalfOfWhatTheLimitLeaves) {
  const testing::TempDir proc;
  std::filesystem::create_directories(proc / "self/fd");
  for (int fd = 0; fd < 24; ++fd) {
    testing::write_text(proc / ("self/fd/" + std::to_string(fd)), "");
  }
  LimitSources sources;
  sources.proc = proc.path();
  sources.open_files = 1024;

  EXPECT_EQ(free_descriptors(sources), 1000u);
  EXPECT_EQ(default_open_files(sources), 500u);
}

TEST(DefaultOpenFiles, AreAFewWhereNoneAreLeft) {
  LimitSources sources;
  sources.open_files = 3;

  EXPECT_EQ(free_descriptors(sources), 0u);
  EXPECT_GE(default_open_files(sources), 2u);
}

TEST(DefaultOpenFiles, NeedNoProc) {
  LimitSources sources;
  sources.proc = "/nowhere";
  sources.open_files = 1024;

  EXPECT_GE(default_open_files(sources), 256u);
}

}  // namespace
}  // namespace cairn
