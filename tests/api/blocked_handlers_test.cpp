// SPDX-License-Identifier: Apache-2.0
// A handler that blocks its thread keeps nothing that other operations need: requests in flight, staging memory, open
// files.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/contract/handler.hpp"

#include "api/fixture.hpp"
#include "async/internal/event.hpp"
#include "support/held_syscalls.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using testing::Held;

/// Where the handler of it blocks its thread, from when on and until when.
struct Blocker {
  Blocker() = default;

  bool is_in_background = false;
  async::Event begin;
  async::Event entered;
  async::Event go_on;
};

class BlockingHandler final : public CheckpointableHandler<Blocker> {
 public:
  std::string_view id() const noexcept override { return "test.blocking/1"; }

  // outlives: the caller keeps the value during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Blocker& blocker) const override {
    if (!blocker.is_in_background) {
      co_await block(blocker);
    }
    co_return finish(std::move(context), blocker);
  }

  Awaitable<Background<Blocker>> load(LoadContext, std::optional<Blocker> blocker) const override {
    co_return finish(*blocker);
  }

  Awaitable<Blocker> metadata(LoadContext) const override { co_return Blocker(); }

 private:
  // outlives: who awaits keeps the blocker.
  static Awaitable<> block(const Blocker& blocker) {
    co_await blocker.begin.wait();
    blocker.entered.set();
    blocker.go_on.get();
  }

  static Background<> finish(SaveContext context, Blocker blocker) {
    if (blocker.is_in_background) {
      co_await block(blocker);
    }
    co_await context.write_file("blocker.txt", "something");
  }

  static Background<Blocker> finish(Blocker blocker) {
    co_await block(blocker);
    co_return blocker;
  }
};

/// Of what there is only just enough for one.
struct Scarce {
  const char* name;
  std::uint32_t queue_depth = 24;
  std::size_t staging_bytes = std::size_t{64} << 20;
  std::size_t open_files = 0;
  Snapshot snapshot = Snapshot::copy;

  friend std::ostream& operator<<(std::ostream& out, const Scarce& scarce) { return out << scarce.name; }
};

/// A save or a load whose disk does not answer, and one of whose handlers then blocks, beside operations of others.
class BlockedHandlers : public testing::ApiTest, public ::testing::WithParamInterface<Scarce> {
 protected:
  BlockedHandlers() {
    ContextOptions options = small();
    options.queue_depth = GetParam().queue_depth;
    options.staging_bytes = GetParam().staging_bytes;
    options.open_files = GetParam().open_files;
    options.syscalls = calls_;
    options.registry.add<BlockingHandler>();
    context_.emplace(std::move(options));
  }

  ~BlockedHandlers() override {
    calls_->let_go();
    blocker_.go_on.set();
    context_.reset();
  }

  [[nodiscard]] SaveOptions options() const {
    SaveOptions options;
    options.snapshot = GetParam().snapshot;
    return options;
  }

  /// The disk answers when the handler blocks, and from then on.
  void block(const Blocker& blocker) const {
    EXPECT_TRUE(calls_->holds());
    blocker.begin.set();
    blocker.entered.get();
    calls_->let_go();
  }

  /// Those that block go on afterwards.
  void expect_others_go_on(const Blocker& blocker) const {
    SaveOptions accepted = options();
    accepted.return_when_accepted = true;
    const AsyncResponse other = save_async(directory_ / "other", Tree(large_), accepted, *context_);
    EXPECT_NO_THROW(other.wait(20s));
    blocker.go_on.set();
    EXPECT_EQ(load(directory_ / "other", {}, *context_), large_);
  }

  /// Puts the array out of the page cache, where that can be: else it is read at once, without a request in flight.
  void make_cold() const {
    const int fd = ::open((target() / "a/data-r00000-000.safetensors").c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }

  static constexpr std::size_t kArrayBytes = std::size_t{1} << 20;

  const std::shared_ptr<testing::HeldSyscalls> calls_ = std::make_shared<testing::HeldSyscalls>();
  const Tree large_ = {{"x", Array::zeros({kArrayBytes}, DType::uint8)}};
  Blocker blocker_;
};

TEST_P(BlockedHandlers, OfABackgroundPhaseKeepNothing) {
  calls_->hold(Held::write, 1, kArrayBytes);
  blocker_.is_in_background = true;
  const AsyncResponse response =
      save_checkpointables_async(target(), {{"a", large_}, {"b", blocker_}}, options(), *context_);
  block(blocker_);

  expect_others_go_on(blocker_);
  response.wait();
}

/// What borrows writes nothing before its background phase.
class BlockedHandlersOfCopies : public BlockedHandlers {};

TEST_P(BlockedHandlersOfCopies, OfABlockingPhaseKeepNothing) {
  calls_->hold(Held::write, 1, kArrayBytes);
  std::jthread caller([this] {
    save_checkpointables_async(target(), {{"a", large_}, {"b", blocker_}}, options(), *context_).wait();
  });
  block(blocker_);

  expect_others_go_on(blocker_);
}

TEST_P(BlockedHandlers, OfALoadKeepNothing) {
  blocker_.begin.set();
  blocker_.go_on.set();
  save_checkpointables(target(), {{"a", large_}, {"b", blocker_}}, options(), *context_);
  Blocker blocker;
  make_cold();
  calls_->hold(Held::read, 1, kArrayBytes);
  const LoadResponse response =
      load_checkpointables_async(target(), {"a", Request("b", blocker)}, {}, *context_);
  block(blocker);

  expect_others_go_on(blocker);
  static_cast<void>(response.wait());
}

constexpr Scarce kRequests{.name = "Requests", .queue_depth = 1};
constexpr Scarce kRequestsOfBorrowed{
    .name = "RequestsOfBorrowed", .queue_depth = 1, .snapshot = Snapshot::borrow};
constexpr Scarce kStagingMemory{.name = "StagingMemory", .staging_bytes = std::size_t{4} << 20};
constexpr Scarce kOpenFiles{.name = "OpenFiles", .open_files = 2};

INSTANTIATE_TEST_SUITE_P(Of, BlockedHandlers,
                         ::testing::Values(kRequests, kRequestsOfBorrowed, kStagingMemory, kOpenFiles),
                         [](const auto& each) { return each.param.name; });
INSTANTIATE_TEST_SUITE_P(Of, BlockedHandlersOfCopies,
                         ::testing::Values(kRequests, kStagingMemory, kOpenFiles),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace cairn
