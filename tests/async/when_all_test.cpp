// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "async/internal/event.hpp"
#include "async/internal/sleep.hpp"
#include "async/internal/suspend.hpp"
#include "async/internal/thread_pool.hpp"
#include "async/parked.hpp"
#include "async/tasks.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"
#include "support/sync_wait.hpp"
#include "support/task_scope.hpp"

namespace cairn::async {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::Fails;
using testing::run;
using testing::start;
using testing::sync_wait;
using testing::TaskScope;

/// Fails in its own way when it is asked to stop.
Awaitable<> fail_when_cancelled(Errc code) {
  bool is_cancelled = false;
  try {
    co_await sleep_for(1h);
  } catch (const std::exception&) {
    is_cancelled = true;
  }
  if (is_cancelled) {
    throw Error(code, "while stopping");
  }
}

Awaitable<int> return_later(std::chrono::milliseconds delay, int value) {
  co_await sleep_for(delay);
  co_return value;
}

std::vector<std::string> texts(const std::vector<std::exception_ptr>& failures) {
  std::vector<std::string> result;
  for (const std::exception_ptr& failure : failures) {
    result.push_back(describe(failure));
  }
  return result;
}

TEST(WhenAll, ReturnsAtOnceForNoTasks) {
  EXPECT_NO_THROW(run(when_all(std::vector<Awaitable<>>())));
  EXPECT_TRUE(run(when_all(std::vector<Awaitable<int>>())).empty());
}

TEST(WhenAll, ReturnsResultsInTheOrderOfTheTasks) {
  std::vector<Awaitable<int>> tasks;
  tasks.push_back(return_later(10ms, 1));
  tasks.push_back(return_later(0ms, 2));
  tasks.push_back(return_later(5ms, 3));

  EXPECT_THAT(run(when_all(std::move(tasks))), ElementsAre(1, 2, 3));
}

TEST(WhenAll, RunsItsTasksBesideEachOther) {
  const Event event;
  std::atomic<int> count = 0;
  std::vector<Awaitable<>> tasks;
  tasks.push_back(count_after(event.wait(), &count));
  tasks.push_back(count_after(event.wait(), &count));
  ThreadPool pool(2, "test");
  const Event ended = start(make_strand(pool.executor()), when_all(std::move(tasks)));

  event.set();

  EXPECT_NO_THROW(ended.get());
  EXPECT_EQ(count, 2);
}

TEST(WhenAll, StopsTheOthersWhenOneFails) {
  std::vector<Awaitable<>> tasks;
  tasks.push_back(sleep_for(1h));
  tasks.push_back(fail_with(Errc::io_failure));
  tasks.push_back(sleep_for(1h));

  EXPECT_THAT([&] { run(when_all(std::move(tasks))); }, Fails(Errc::io_failure));
}

TEST(WhenAll, WaitsForTasksThatDoNotStopWhenOneFails) {
  ThreadPool pool(2, "test");
  Mailbox<Resume> handles;
  std::vector<Awaitable<>> tasks;
  tasks.push_back(park(&handles));
  tasks.push_back(fail_with(Errc::io_failure));
  const Event ended = start(make_strand(pool.executor()), when_all(std::move(tasks)));
  const Resume resume = handles.take();
  EXPECT_FALSE(ended.wait_for(20ms));

  resume();

  EXPECT_THAT([&] { ended.get(); }, Fails(Errc::io_failure));
}

TEST(WhenAll, StopsItsTasksWhenTheCallerIsCancelled) {
  ThreadPool pool(2, "test");
  TaskScope scope(make_strand(pool.executor()));
  std::vector<Awaitable<>> tasks;
  tasks.push_back(sleep_for(1h));
  tasks.push_back(sleep_for(1h));
  scope.spawn(when_all(std::move(tasks)));

  scope.cancel();

  EXPECT_THROW(sync_wait(make_strand(pool.executor()), scope.join()), std::exception);
}

Awaitable<> nest(int depth, std::atomic<int>* count) {
  if (depth == 0) {
    ++*count;
    co_return;
  }
  std::vector<Awaitable<>> tasks;
  tasks.push_back(nest(depth - 1, count));
  co_await when_all(std::move(tasks));
}

TEST(WhenAll, NestsDeeply) {
  std::atomic<int> count = 0;

  run(nest(200, &count));

  EXPECT_EQ(count, 1);
}

TEST(WhenAll, RunsTenThousandTasks) {
  std::atomic<int> count = 0;
  std::vector<Awaitable<>> tasks;
  for (int i = 0; i < 10'000; ++i) {
    tasks.push_back(count_after(sleep_for(0ns), &count));
  }

  run(when_all(std::move(tasks)));

  EXPECT_EQ(count, 10'000);
}

TEST(WhenAll, StopsTenThousandTasksWhenTheFirstFails) {
  std::vector<Awaitable<>> tasks;
  tasks.push_back(fail_with(Errc::io_failure));
  for (int i = 0; i < 10'000; ++i) {
    tasks.push_back(sleep_for(1h));
  }

  EXPECT_THAT([&] { run(when_all(std::move(tasks))); }, Fails(Errc::io_failure));
}

TEST(SettleAll, ReturnsNoFailuresWhenAllSucceed) {
  std::vector<Awaitable<>> tasks;
  tasks.push_back(sleep_for(0ns));

  EXPECT_TRUE(run(settle_all(std::move(tasks))).empty());
}

TEST(SettleAll, ListsFailuresInTheOrderInWhichTheyHappened) {
  std::vector<Awaitable<>> tasks;
  tasks.push_back(fail_when_cancelled(Errc::closed));
  tasks.push_back(fail_with(Errc::io_failure));

  EXPECT_THAT(texts(run(settle_all(std::move(tasks)))),
              ElementsAre("task: io failure", "while stopping: closed"));
}

/// Settles in a cancelled coroutine, then awaits again.
Awaitable<> settle_then_sleep(Mailbox<Resume>* handles, bool* has_settled, bool* has_slept) {
  std::vector<Awaitable<>> tasks;
  tasks.push_back(park(handles));
  const auto failures = co_await settle_all(std::move(tasks));
  *has_settled = true;
  co_await sleep_for(0ns);
  *has_slept = true;
}

TEST(SettleAll, LeavesTheNextAwaitOfACancelledCallerToThrow) {
  bool has_settled = false;
  bool has_slept = false;
  ThreadPool pool(2, "test");
  Mailbox<Resume> handles;
  TaskScope scope(make_strand(pool.executor()));
  scope.spawn(settle_then_sleep(&handles, &has_settled, &has_slept));
  const Resume resume = handles.take();

  scope.cancel();
  const Event turn = start(make_strand(pool.executor()), sleep_for(20ms));
  turn.get();
  resume();
  scope.wait();

  EXPECT_TRUE(has_settled);
  EXPECT_FALSE(has_slept);
  EXPECT_THROW(sync_wait(pool.executor(), scope.join()), std::exception);
}

TEST(RethrowFirst, PrefersFailuresToCancellations) {
  const auto failure = std::make_exception_ptr(Error(Errc::io_failure, "disk"));

  EXPECT_THAT([&] { rethrow_first({cancelled(), failure}); }, Fails(Errc::io_failure));
}

TEST(RethrowFirst, ThrowsTheCancellationWhenThereIsNothingElse) {
  EXPECT_THROW(rethrow_first({cancelled()}), std::exception);
}

TEST(RethrowFirst, DoesNothingWithoutFailures) {
  EXPECT_NO_THROW(rethrow_first({}));
}

}  // namespace
}  // namespace cairn::async
