// SPDX-License-Identifier: Apache-2.0

#include "support/task_scope.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "async/internal/event.hpp"
#include "async/internal/semaphore.hpp"
#include "async/internal/sleep.hpp"
#include "async/internal/thread_pool.hpp"
#include "async/parked.hpp"
#include "async/tasks.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"
#include "support/sync_wait.hpp"

namespace cairn::async {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::Fails;
using testing::start;
using testing::sync_wait;
using testing::TaskScope;

Awaitable<> throw_number() {
  throw 7;
  co_return;
}

Awaitable<> count_up(std::atomic<int>* count) {
  ++*count;
  co_return;
}

Awaitable<> wait_for_bytes(Semaphore budget) {
  const Permit lease = co_await budget.acquire(1);
}

class TaskScopeTest : public ::testing::Test {
 protected:
  std::exception_ptr join() {
    try {
      sync_wait(strand_, scope_.join());
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void join_or_throw() {
    if (const std::exception_ptr failure = join()) {
      std::rethrow_exception(failure);
    }
  }

  ThreadPool pool_{4, "test"};
  Executor strand_ = make_strand(pool_.executor());
  TaskScope scope_{strand_};
};

using TaskScopeJoin = TaskScopeTest;
using TaskScopeCancel = TaskScopeTest;

TEST_F(TaskScopeJoin, ReturnsAtOnceWhenNothingWasSpawned) {
  EXPECT_EQ(join(), nullptr);
}

TEST_F(TaskScopeJoin, WaitsForEveryTask) {
  std::atomic<int> count = 0;
  for (int i = 0; i < 1000; ++i) {
    scope_.spawn(count_up(&count));
  }

  EXPECT_EQ(join(), nullptr);
  EXPECT_EQ(count, 1000);
}

TEST_F(TaskScopeJoin, KeepsAFailureThatHappenedLongBefore) {
  scope_.spawn(fail_with(Errc::io_failure));
  scope_.wait();

  EXPECT_THAT([&] { join_or_throw(); }, Fails(Errc::io_failure));
}

TEST_F(TaskScopeJoin, ThrowsTheFirstOfSeveralFailures) {
  scope_.spawn(fail_with(Errc::not_found));
  scope_.wait();
  scope_.spawn(fail_with(Errc::io_failure));

  EXPECT_THAT([&] { join_or_throw(); }, Fails(Errc::not_found));
}

TEST_F(TaskScopeJoin, PrefersAFailureToAnEarlierCancellation) {
  scope_.spawn(sleep_for(1h));
  scope_.cancel();
  scope_.wait();
  scope_.spawn(fail_with(Errc::io_failure));

  EXPECT_THAT([&] { join_or_throw(); }, Fails(Errc::io_failure));
}

TEST_F(TaskScopeJoin, CarriesExceptionsOfAnyType) {
  scope_.spawn(throw_number());

  EXPECT_THROW(join_or_throw(), int);
}

TEST_F(TaskScopeJoin, ForgetsTheFailuresThatItHasThrown) {
  scope_.spawn(fail_with(Errc::io_failure));
  EXPECT_NE(join(), nullptr);

  EXPECT_EQ(join(), nullptr);
}

TEST_F(TaskScopeJoin, LetsTheOtherTasksGoOnAfterAFailure) {
  const Event event;
  scope_.spawn(fail_with(Errc::io_failure));
  scope_.spawn(event.wait());
  const Event joined = start(strand_, scope_.join());
  EXPECT_FALSE(joined.wait_for(20ms));

  event.set();

  EXPECT_THAT([&] { joined.get(); }, Fails(Errc::io_failure));
}

Awaitable<> spawn_more(TaskScope* scope, std::atomic<int>* count, int generations) {
  ++*count;
  if (generations > 0) {
    scope->spawn(spawn_more(scope, count, generations - 1));
    scope->spawn(spawn_more(scope, count, generations - 1));
  }
  co_return;
}

TEST_F(TaskScopeJoin, WaitsForTasksThatTasksSpawn) {
  std::atomic<int> count = 0;
  scope_.spawn(spawn_more(&scope_, &count, 9));

  EXPECT_EQ(join(), nullptr);
  EXPECT_EQ(count, 1023);
}

TEST_F(TaskScopeJoin, CountsTasksThatManyThreadsSpawn) {
  std::atomic<int> count = 0;
  {
    std::vector<std::jthread> spawners;
    for (int i = 0; i < 4; ++i) {
      spawners.emplace_back([&] {
        for (int task = 0; task < 200; ++task) {
          scope_.spawn(count_up(&count));
        }
      });
    }
  }

  EXPECT_EQ(join(), nullptr);
  EXPECT_EQ(count, 800);
}

TEST_F(TaskScopeJoin, AsksTheTasksToStopWhenItIsCancelled) {
  scope_.spawn(sleep_for(1h));
  TaskScope outer(strand_);
  outer.spawn(scope_.join());

  outer.cancel();
  outer.wait();

  EXPECT_EQ(join(), nullptr);
}

TEST_F(TaskScopeCancel, ReachesTimers) {
  scope_.spawn(sleep_for(1h));

  scope_.cancel();

  EXPECT_TRUE(is_cancelled(join()));
}

TEST_F(TaskScopeCancel, ReachesThoseWhoWaitForABudget) {
  Semaphore budget(1);
  const Permit lease = budget.try_acquire(1);
  scope_.spawn(wait_for_bytes(budget));
  ASSERT_TRUE(eventually([&] { return budget.waiting() == 1; }));

  scope_.cancel();

  EXPECT_TRUE(is_cancelled(join()));
  EXPECT_EQ(budget.waiting(), 0U);
}

TEST_F(TaskScopeCancel, ReachesTasksThatAreSpawnedLater) {
  scope_.cancel();
  scope_.spawn(sleep_for(1h));

  EXPECT_TRUE(is_cancelled(join()));
}

TEST_F(TaskScopeCancel, ReachesEveryTaskWhenItRacesWithSpawning) {
  for (int round = 0; round < 100; ++round) {
    TaskScope scope(strand_);
    std::jthread spawner([&] {
      for (int i = 0; i < 10; ++i) {
        scope.spawn(sleep_for(1h));
      }
    });
    scope.cancel();
    spawner.join();

    const Event joined = start(strand_, scope.join());
    ASSERT_TRUE(joined.wait_for(10s));
  }
}

TEST_F(TaskScopeCancel, MayBeRepeated) {
  scope_.spawn(sleep_for(1h));

  for (int i = 0; i < 100; ++i) {
    scope_.cancel();
  }

  EXPECT_TRUE(is_cancelled(join()));
}

TEST_F(TaskScopeCancel, StaysCheapForTasksSpawnedAfterIt) {
  scope_.cancel();
  for (int i = 0; i < 5000; ++i) {
    scope_.spawn(sleep_for(1h));
  }

  EXPECT_TRUE(is_cancelled(join()));
}

TEST(TaskScopeDestructorDeathTest, TerminatesWhenTasksAreRunning) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(1, "test");
        TaskScope scope(make_strand(pool.executor()));
        scope.spawn(sleep_for(1h));
      },
      "terminate");
}

}  // namespace
}  // namespace cairn::async
