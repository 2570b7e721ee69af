// SPDX-License-Identifier: Apache-2.0
// Sessions of ranks that have threads: for ThreadSanitizer above all.
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "support/run.hpp"

namespace cairn::coord {
namespace {

using testing::run;

constexpr std::size_t kRanks = 5;

class ThreadedJob : public ::testing::Test {
 protected:
  ThreadedJob() {
    CoordinatorOptions options;
    options.fan_out = 2;
    options.heartbeat = std::chrono::milliseconds(1);  // Many, beside all else.
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      coordinators_.push_back(std::make_unique<Coordinator>(network_.transport(rank), options));
    }
  }

  /// Runs `program(coordinator)` on a thread for each rank.
  template <class Run>
  void on_all(Run program) {
    std::vector<std::thread> threads;
    for (const auto& coordinator : coordinators_) {
      threads.emplace_back([&program, &coordinator] { program(*coordinator); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  testing::LocalRanks network_{kRanks};
  std::vector<std::unique_ptr<Coordinator>> coordinators_;
};

TEST_F(ThreadedJob, HoldsManySessionsOneAfterTheOther) {
  std::atomic<std::size_t> right{0};
  on_all([&](Coordinator& coordinator) {
    for (int i = 0; i < 50; ++i) {
      Session session = coordinator.join();
      Channel channel = session.channel("it");
      run(channel.agree("names", "same"), 1);
      right += run(channel.broadcast(fmt::format("{}", i)), 1) == fmt::format("{}", i);
      session.leave();
    }
  });

  EXPECT_EQ(right, 50 * kRanks);
}

TEST_F(ThreadedJob, HoldsSeveralAtOnceOfWhichOneFails) {
  std::atomic<std::size_t> agreed{0};
  std::atomic<std::size_t> failed{0};
  on_all([&](Coordinator& coordinator) {
    std::vector<Session> sessions;
    for (int i = 0; i < 4; ++i) {
      sessions.push_back(coordinator.join());
    }
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      threads.emplace_back([&, i] {
        Session& session = sessions[i];
        if (i == 2 && coordinator.rank() == 3) {
          session.fail(std::make_exception_ptr(Error(Errc::io_failure, "no space")));
        }
        try {
          run(session.channel("it").agree("names", "same"), 1);
          ++agreed;
        } catch (const Error&) {
          ++failed;
        }
        session.leave();
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });

  EXPECT_EQ(agreed, 3 * kRanks);
  EXPECT_EQ(failed, kRanks);
}

TEST_F(ThreadedJob, CanBeClosedWhileOthersTalk) {
  std::atomic<std::size_t> failed{0};
  on_all([&](Coordinator& coordinator) {
    Session session = coordinator.join();
    if (coordinator.rank() == 1) {
      coordinators_[1].reset();
    }
    try {
      run(session.channel("it").agree("names", "same"), 1);
    } catch (const Error&) {
      ++failed;
    }
  });

  EXPECT_EQ(failed, kRanks);
}

}  // namespace
}  // namespace cairn::coord
