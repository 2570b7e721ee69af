// SPDX-License-Identifier: Apache-2.0
#include "async/internal/limited_pool.hpp"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"

namespace cairn::async {
namespace {

using testing::eventually;
using testing::Fails;

TEST(LimitedPool, RunsSoManyAtOnceAndAllInTheEnd) {
  ThreadPool pool(4, "test");
  const LimitedPool share(pool, 2);
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> ended{0};
  for (int i = 0; i < 50; ++i) {
    share.submit([&] {
      const int now = ++running;
      int seen = most;
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      std::this_thread::yield();
      --running;
      ++ended;
    });
  }

  EXPECT_TRUE(eventually([&] { return ended == 50; }));
  EXPECT_LE(most, 2);
}

TEST(LimitedPool, LeavesThreadsToOthers) {
  ThreadPool pool(2, "test");
  const LimitedPool slow(pool, 1);
  const LimitedPool quick(pool, 1);
  const Event gate;
  const Event done;
  for (int i = 0; i < 10; ++i) {
    slow.submit([&] { gate.get(); });
  }

  quick.submit([&] { done.set(); });

  EXPECT_TRUE(done.wait_for(std::chrono::seconds(10)));
  gate.set();
  const Event last;
  slow.submit([&] { last.set(); });
  last.get();
}

TEST(LimitedPool, KnowsTheThreadThatRunsItsWork) {
  ThreadPool pool(1, "pool");
  const LimitedPool share(pool, 1);
  const LimitedPool other(pool, 1);
  bool runs = false;
  bool runs_other = true;
  const Event looked;

  share.submit([&] {
    runs = share.runs_this_thread();
    runs_other = other.runs_this_thread();
    looked.set();
  });
  looked.get();

  EXPECT_TRUE(runs);
  EXPECT_FALSE(runs_other);
  EXPECT_FALSE(share.runs_this_thread());
}

TEST(LimitedPool, RethrowsWhatWorkThrows) {
  ThreadPool pool(1, "test");
  const LimitedPool share(pool, 1);
  std::function<void()> work = [] { throw Error(Errc::shape_mismatch, "work"); };

  EXPECT_THAT([&] { testing::run(offload(share, work)); }, Fails(Errc::shape_mismatch));
}

}  // namespace
}  // namespace cairn::async
