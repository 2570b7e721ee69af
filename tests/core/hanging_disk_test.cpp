// SPDX-License-Identifier: Apache-2.0
// A disk that does not answer keeps what is on its way to it, and nothing else of the context.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using testing::Blob;
using testing::BlobHandler;
using testing::eventually;
using testing::make_blob;

constexpr std::size_t kLarge = std::size_t{24} << 20;
constexpr std::size_t kTransferBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kLong{20};

/// The operating system, where transfers of the files below one directory do not come back until it is let go.
class HangingDisk final : public testing::ForwardingSyscalls {
 public:
  // outlives: the test keeps the path.
  explicit HangingDisk(const std::filesystem::path& root) : root_(root.string() + "/") {}

  void hang(testing::CallKind kind) {
    kind_ = kind;
    hangs_ = true;
  }
  void let_go() {
    hangs_ = false;
    gate_.set();
  }
  [[nodiscard]] int stuck() const { return stuck_; }

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    const bool is_transfer =
        call.kind == kind_ && (call.kind == testing::CallKind::sync_data || call.bytes >= kTransferBytes);
    if (hangs_ && is_transfer && is_below(call.fd)) {
      ++stuck_;
      gate_.get();
    }
    return call.make();
  }

  [[nodiscard]] bool is_below(int fd) const noexcept {
    std::array<char, 4096> path{};
    const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
    return size > 0 && std::string_view(path.data(), static_cast<std::size_t>(size)).starts_with(root_);
  }

  const std::string root_;
  std::atomic<testing::CallKind> kind_{testing::CallKind::write};
  std::atomic<bool> hangs_{false};
  std::atomic<int> stuck_{0};
  const async::Event gate_;
};

/// A context of which one operation alone could take all there is, and two disks.
class HangingDiskTest : public ::testing::Test {
 protected:
  HangingDiskTest() {
    std::filesystem::create_directory(bad());
    std::filesystem::create_directory(good());
    disk_ = std::make_shared<HangingDisk>(bad());
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.queue_depth = 3;
    options.staging_bytes = std::size_t{8} << 20;
    options.open_files = 3;
    options.worker_threads = 1;
    options.syscalls = disk_;
    context_.emplace(std::move(options));
  }

  ~HangingDiskTest() override {
    disk_->let_go();
    context_.reset();
  }

  HangingDiskTest(const HangingDiskTest&) = delete;
  HangingDiskTest& operator=(const HangingDiskTest&) = delete;

  [[nodiscard]] std::filesystem::path bad() const { return directory_ / "bad"; }
  [[nodiscard]] std::filesystem::path good() const { return directory_ / "good"; }

  [[nodiscard]] AsyncResponse save(const std::filesystem::path& path, const Blob& blob,
                                   Snapshot snapshot = Snapshot::copy) const {
    SaveOptions options;
    options.return_when_accepted = true;
    options.snapshot = snapshot;
    return core::start_save(path, {{"blob", blob}}, registry_, options, *context_);
  }

  [[nodiscard]] LoadResponse load(const std::filesystem::path& path) const {
    return core::start_load(path, {}, registry_, LoadOptions(), *context_);
  }

  /// Saves and loads on the disk that answers.
  void use_the_good_disk() const {
    const Blob blob = make_blob(kLarge, 3);
    ASSERT_NO_THROW(static_cast<void>(save(good() / "saved", blob).wait(kLong)));
    ASSERT_NO_THROW(static_cast<void>(load(good() / "saved").wait(kLong)));
  }

  const testing::TempDir directory_;
  const RegistrySnapshot registry_ = testing::blob_registry();
  const Blob large_ = make_blob(kLarge);
  std::shared_ptr<HangingDisk> disk_;
  std::optional<Context> context_;
};

TEST_F(HangingDiskTest, KeepsNoBuffersRequestsAndDescriptorsOfSavesOnAnotherDisk) {
  disk_->hang(testing::CallKind::write);
  std::vector<AsyncResponse> hanging;
  for (int i = 0; i < 3; ++i) {
    hanging.push_back(save(bad() / fmt::format("step{}", i), large_));
  }
  ASSERT_TRUE(eventually([&] { return disk_->stuck() >= 3; }));

  use_the_good_disk();

  disk_->let_go();
  for (AsyncResponse& response : hanging) {
    EXPECT_NO_THROW(static_cast<void>(response.wait()));
  }
}

TEST_F(HangingDiskTest, KeepsNothingOfOthersWhenBorrowedMemoryIsOnItsWay) {
  disk_->hang(testing::CallKind::write);
  std::vector<AsyncResponse> hanging;
  for (int i = 0; i < 3; ++i) {
    hanging.push_back(save(bad() / fmt::format("step{}", i), large_, Snapshot::borrow));
  }
  ASSERT_TRUE(eventually([&] { return disk_->stuck() >= 3; }));

  const Blob blob = make_blob(kLarge, 3);
  EXPECT_NO_THROW(static_cast<void>(save(good() / "saved", blob, Snapshot::borrow).wait(kLong)));

  disk_->let_go();
}

TEST_F(HangingDiskTest, KeepsNoThreadsOfLoadsFromAnotherDisk) {
  save(bad() / "step", large_).wait();
  disk_->hang(testing::CallKind::read);
  std::vector<LoadResponse> hanging;
  for (int i = 0; i < 3; ++i) {
    hanging.push_back(load(bad() / "step"));
  }
  ASSERT_TRUE(eventually([&] { return disk_->stuck() >= 1; }));

  use_the_good_disk();

  disk_->let_go();
  for (LoadResponse& response : hanging) {
    EXPECT_NO_THROW(static_cast<void>(response.wait()));
  }
}

/// Bytes that come when the test says so.
class BlockingSource final : public ByteSource {
 public:
  BlockingSource(async::Event asked, async::Event gate) : asked_(std::move(asked)), gate_(std::move(gate)) {}

  void read(std::uint64_t, std::span<std::byte> out) const override {
    asked_.set();
    gate_.get();
    std::fill(out.begin(), out.end(), std::byte{});
  }

 private:
  const async::Event asked_;
  const async::Event gate_;
};

class BlockingHandler final : public BlobHandler {
 public:
  BlockingHandler(async::Event asked, async::Event gate)
      : source_(std::make_shared<BlockingSource>(std::move(asked), std::move(gate))) {}

  Awaitable<Background<>> save(SaveContext context, const Blob& blob) const override {
    std::vector<SourcePiece> pieces(1);
    pieces[0].size_bytes = blob.bytes.size();
    pieces[0].source = source_;
    return context.write_pieces("blob.bin", std::move(pieces), blob.bytes.size());
  }

 private:
  std::shared_ptr<BlockingSource> source_;
};

TEST_F(HangingDiskTest, NorDoesASourceThatBlocksKeepOthersWaiting) {
  const async::Event asked;
  const async::Event gate;
  HandlerRegistry registry;
  registry.add(std::make_shared<const BlockingHandler>(asked, gate));
  SaveOptions accepted;
  accepted.return_when_accepted = true;
  AsyncResponse blocked =
      core::start_save(good() / "blocked", {{"blob", large_}}, registry.snapshot(), accepted, *context_);
  ASSERT_TRUE(asked.wait_for(kLong));

  use_the_good_disk();

  gate.set();
  EXPECT_NO_THROW(blocked.wait());
}

}  // namespace
}  // namespace cairn
