// SPDX-License-Identifier: Apache-2.0
// Ranks whose transport has no thread of its own, as with MPI_THREAD_FUNNELED: calls that wait lend it theirs.
#include "coord/internal/borrowed_caller_thread.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "coord/lent_ranks.hpp"
#include "core/joint_job.hpp"

namespace cairn {

namespace {

using namespace std::chrono_literals;
using testing::Blob;
using testing::Fails;
using ::testing::HasSubstr;
using testing::LentRanks;
using testing::LentThreads;
using testing::load_alone;
using testing::make_blob;
using testing::Part;
using testing::RankEnd;
using testing::TempDir;

constexpr std::size_t kRanks = 4;

class LentJob : public ::testing::TestWithParam<LentThreads> {
 protected:
  struct Rank {
    std::size_t number;
    Context& context;
    const RegistrySnapshot& registry;

    [[nodiscard]] AsyncResponse start(const std::filesystem::path& target, SaveOptions options = {}) const {
      options.deadline = 20s;
      return core::start_save(target,
                              {{"part", Part(fmt::format("{};", number))}, {"blob", make_blob(3'000'000)}},
                              registry, options, context);
    }
  };

  LentJob() {
    HandlerRegistry registry;
    registry.add<testing::BlobHandler>();
    registry.add(std::make_shared<const testing::PartHandler>(hooks_));
    registry_ = registry.snapshot();
    coordinating_.fan_out = 2;
  }

  /// Calls `act` on a thread for each rank, with a context that was made there. Returns what each threw; empty where
  /// nothing.
  std::vector<std::string> on_all(const std::function<void(const Rank& rank)>& act) {
    LentRanks network(kRanks, GetParam());
    std::vector<std::string> failures(kRanks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          ContextOptions options;
          options.engine = io::EngineKind::threads;
          options.worker_threads = 1;
          options.staging_bytes = std::size_t{16} << 20;
          options.coordinator = std::make_shared<coord::Coordinator>(network.transport(rank), coordinating_);
          Context context(std::move(options));
          act({rank, context, registry_});
        } catch (...) {
          failures[rank] = describe(std::current_exception());
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(network.violations(), 0u);
    return failures;
  }

  void expect_saved(const std::vector<std::string>& failures) const {
    EXPECT_THAT(failures, ::testing::Each(""));
    EXPECT_EQ(load_alone(target(), registry_).take<Part>("part").text, "0;1;2;3;");
  }

  [[nodiscard]] std::filesystem::path target() const { return directory_ / "step"; }

  TempDir directory_;
  const std::shared_ptr<testing::PartHooks> hooks_ = std::make_shared<testing::PartHooks>();
  coord::CoordinatorOptions coordinating_;
  RegistrySnapshot registry_;
};

TEST_P(LentJob, SavesInCallsThatWait) {
  expect_saved(on_all([&](const Rank& rank) { rank.start(target()).wait(); }));
}

TEST_P(LentJob, SavesInCallsThatWaitForAWhile) {
  expect_saved(on_all([&](const Rank& rank) { rank.start(target()).wait(20s); }));
}

TEST_P(LentJob, SavesInCallsThatWaitUntilAllIsStaged) {
  SaveOptions options;
  options.return_when_accepted = true;

  expect_saved(on_all([&](const Rank& rank) {
    const AsyncResponse saving = rank.start(target(), options);
    saving.wait_staged();
    saving.wait_done();
  }));
}

TEST_P(LentJob, SavesWhileContextsAreClosed) {
  expect_saved(on_all([&](const Rank& rank) {
    const AsyncResponse saving = rank.start(target());
    rank.context.close();
    saving.wait();
  }));
}

TEST_P(LentJob, DoesNotLoseARankWhoseHandlerKeepsTheThread) {
  coordinating_.lost_after = 500ms;
  coordinating_.heartbeat = 20ms;
  hooks_->blocking = [](std::size_t rank) {
    if (rank == 1) {  // Between others.
      std::this_thread::sleep_for(1500ms);
    }
  };

  expect_saved(on_all([&](const Rank& rank) { rank.start(target()).wait(); }));
}

TEST_P(LentJob, LoadsTogether) {
  expect_saved(on_all([&](const Rank& rank) { rank.start(target()).wait(); }));
  LoadOptions options;
  options.together = true;
  options.deadline = 20s;

  const std::vector<std::string> failures = on_all([&](const Rank& rank) {
    Loaded loaded = core::start_load(target(), {}, rank.registry, options, rank.context).wait();
    if (loaded.take<Blob>("blob") != make_blob(3'000'000)) {
      throw std::runtime_error("another blob");
    }
  });

  EXPECT_THAT(failures, ::testing::Each(""));
}

TEST_P(LentJob, TellsAllOfAFailure) {
  const std::vector<std::string> failures = on_all(
      [&](const Rank& rank) { rank.start(rank.number == 3 ? directory_ / "other" : target()).wait(); });

  EXPECT_THAT(failures, ::testing::Each(HasSubstr("the path: ranks 0, 1 and 2 have ")));
}

INSTANTIATE_TEST_SUITE_P(Threads, LentJob, ::testing::Values(LentThreads::funneled, LentThreads::serialized),
                         ::testing::PrintToStringParamName());

/// Counts how often it is lent a thread.
class CountingTransport final : public coord::Transport {
 public:
  explicit CountingTransport(std::shared_ptr<std::atomic<int>> count) : count_(std::move(count)) {}
  std::size_t rank() const noexcept override { return 0; }
  std::size_t size() const noexcept override { return 1; }
  std::span<const std::uint32_t> hosts() const noexcept override { return {&host_, 1}; }
  Hash128 job() const noexcept override { return {}; }
  void send(std::size_t /*to*/, coord::Packet /*packet*/) override {}
  void listen(Receiver /*receiver*/, std::function<void()> /*ended*/) override {}
  void call_after(std::chrono::nanoseconds /*delay*/, std::function<void()> /*work*/) override {}
  Time now() const override { return std::chrono::steady_clock::now(); }
  bool progress() override {
    ++*count_;
    return true;
  }

 private:
  const std::uint32_t host_ = 0;
  std::shared_ptr<std::atomic<int>> count_;
};

class BorrowedCallerThread : public ::testing::Test {
 protected:
  const std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
  coord::Coordinator coordinator_{std::make_unique<CountingTransport>(count_)};
};

TEST_F(BorrowedCallerThread, IsLentOnceMoreWhenTheWaitIsOver) {
  coord::wait_with_progress(coordinator_, async::Event::happened());

  EXPECT_GE(*count_, 2);
}

TEST_F(BorrowedCallerThread, IsLentLessAndLessOften) {
  coord::BorrowedCallerThread thread(coordinator_);

  EXPECT_EQ(thread.progress(false), 100us);
  EXPECT_EQ(thread.progress(false), 200us);
  for (int i = 0; i < 10; ++i) {
    thread.progress(false);
  }
  EXPECT_EQ(thread.progress(false), 1ms);
  EXPECT_EQ(thread.progress(true), 100us);
}

TEST_F(BorrowedCallerThread, IsNoneThatTheLibraryHasStarted) {
  start_thread("test", [&] { EXPECT_FALSE(coord::BorrowedCallerThread(coordinator_).is_wanted()); }).join();

  EXPECT_EQ(*count_, 0);
}

TEST_F(BorrowedCallerThread, WaitsAsLongAsTheClockSays) {
  const async::Event never;
  EXPECT_FALSE(coord::wait_with_progress(coordinator_, never, 5ms, system_clock()));
  EXPECT_GE(*count_, 2);
}

}  // namespace
}  // namespace cairn
