// SPDX-License-Identifier: Apache-2.0
#include "async/internal/sleep.hpp"

#include <memory>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "async/internal/suspend.hpp"
#include "async/internal/thread_pool.hpp"
#include "support/fails.hpp"
#include "support/sync_wait.hpp"
#include "support/task_scope.hpp"

namespace cairn::async {
namespace {

using namespace std::chrono_literals;
using testing::Fails;
using testing::sync_wait;
using testing::TaskScope;

Awaitable<std::unique_ptr<int>> make_seven() {
  co_return std::make_unique<int>(7);
}

Awaitable<int> fail_instead() {
  throw Error(Errc::io_failure, "task");
  co_return 0;
}

TEST(SyncWait, ReturnsTheResult) {
  ThreadPool pool(1, "test");

  EXPECT_EQ(*sync_wait(pool.executor(), make_seven()), 7);
}

TEST(SyncWait, RethrowsTheFailure) {
  ThreadPool pool(1, "test");

  EXPECT_THAT([&] { sync_wait(pool.executor(), fail_instead()); }, Fails(Errc::io_failure));
}

TEST(SleepFor, WaitsAsLongAsItSays) {
  ThreadPool pool(1, "test");
  const auto begin = std::chrono::steady_clock::now();

  sync_wait(pool.executor(), sleep_for(10ms));

  EXPECT_GE(std::chrono::steady_clock::now() - begin, 10ms);
}

TEST(SleepFor, StopsWhenCancelled) {
  ThreadPool pool(1, "test");
  TaskScope scope(make_strand(pool.executor()));
  scope.spawn(sleep_for(1h));

  scope.cancel();
  scope.wait();

  EXPECT_THROW(sync_wait(pool.executor(), scope.join()), std::exception);
}

}  // namespace
}  // namespace cairn::async
