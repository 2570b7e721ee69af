// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/async/awaitable.hpp"

#include "async/internal/event.hpp"
#include "async/internal/semaphore.hpp"
#include "async/internal/thread_pool.hpp"
#include "async/parked.hpp"
#include "support/run.hpp"
#include "support/sync_wait.hpp"
#include "support/task_scope.hpp"

namespace cairn::async {
namespace {

using ::testing::ElementsAre;
using testing::eventually;
using testing::run;
using testing::start;
using testing::sync_wait;
using testing::TaskScope;

/// Takes bytes, notes its number, and holds the bytes until the event.
Awaitable<> take(Semaphore budget, std::size_t bytes, int number, std::vector<int>* order, Event until) {
  const Permit lease = co_await budget.acquire(bytes);
  order->push_back(number);
  co_await until.wait();
}

class SemaphoreTest : public ::testing::Test {
 protected:
  /// Spawns a taker and waits until it has been served or queues.
  void spawn_taker(TaskScope& scope, std::size_t bytes, int number, const Event& until) {
    const std::size_t leased_before = budget_.taken();
    const std::size_t waiting_before = budget_.waiting();
    scope.spawn(take(budget_, bytes, number, &order_, until));
    ASSERT_TRUE(
        eventually([&] { return budget_.taken() != leased_before || budget_.waiting() != waiting_before; }));
  }

  ThreadPool pool_{4, "test"};
  Executor strand_ = make_strand(pool_.executor());
  Semaphore budget_{10};
  TaskScope scope_{strand_};
  std::vector<int> order_;  // Written on the strand only.
};

using SemaphoreAcquire = SemaphoreTest;
using SemaphoreCancel = SemaphoreTest;

TEST(Permit, GivesItsBytesBack) {
  Semaphore budget(10);
  {
    const Permit lease = run(budget.acquire(4));
    EXPECT_EQ(lease.count(), 4U);
    EXPECT_EQ(budget.taken(), 4U);
  }
  EXPECT_EQ(budget.taken(), 0U);
}

TEST(Permit, MovesItsBytes) {
  Semaphore budget(10);
  Permit first = budget.try_acquire(4);
  Permit second = budget.try_acquire(5);

  second = std::move(first);

  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): moved-from is empty.
  EXPECT_EQ(second.count(), 4U);
  EXPECT_EQ(budget.taken(), 4U);
}

TEST(Permit, IsReleasedOnce) {
  Semaphore budget(10);
  Permit lease = budget.try_acquire(4);

  lease.release();
  lease.release();

  EXPECT_FALSE(lease);
  EXPECT_EQ(budget.taken(), 0U);
}

TEST(Permit, OutlivesTheBudget) {
  std::optional<Semaphore> budget(10);
  Permit lease = budget->try_acquire(4);

  budget.reset();

  EXPECT_NO_THROW(lease.release());
}

TEST(SemaphoreTryAcquire, IsEmptyWhenTheBytesDoNotFit) {
  Semaphore budget(10);
  const Permit lease = budget.try_acquire(8);

  EXPECT_FALSE(budget.try_acquire(3));
  EXPECT_TRUE(budget.try_acquire(2));
}

TEST(SemaphoreTryAcquire, KnowsNoLimitWithACapacityOfZero) {
  Semaphore budget(0);
  const Permit first = budget.try_acquire(std::size_t{1} << 60);

  EXPECT_TRUE(budget.try_acquire(std::size_t{1} << 60));
}

TEST(SemaphoreShare, IsGrantedSomethingWhateverOthersHold) {
  Semaphore one(10);
  Semaphore other = one.fair_share();
  const Permit all = one.try_acquire(10);

  Permit some = other.try_acquire(4);

  EXPECT_TRUE(some);
  EXPECT_EQ(one.taken(), 14U);
  EXPECT_FALSE(other.try_acquire(1));  // It holds something now.
  some.release();
  EXPECT_TRUE(other.try_acquire(1));
}

TEST(SemaphoreShare, IsOneLimitWithTheOthersUntilThen) {
  Semaphore one(10);
  Semaphore other = one.fair_share();
  const Permit some = one.try_acquire(4);
  const Permit others = other.try_acquire(5);

  EXPECT_FALSE(one.try_acquire(2));
  EXPECT_FALSE(other.try_acquire(2));
  EXPECT_TRUE(other.try_acquire(1));
}

TEST_F(SemaphoreAcquire, ServesAShareThatHasGivenBackAllBeforeThoseThatWaitLonger) {
  Semaphore other = budget_.fair_share();
  Permit all = budget_.try_acquire(10);
  const Event never;
  spawn_taker(scope_, 1, 0, never);  // Of the share that has all.
  Permit own = other.try_acquire(3);
  scope_.spawn(take(other, 3, 1, &order_, Event::happened()));
  scope_.spawn(take(other, 3, 2, &order_, Event::happened()));
  ASSERT_TRUE(eventually([&] { return budget_.waiting() == 3; }));

  own.release();

  EXPECT_TRUE(eventually([&] { return budget_.waiting() == 1; }));
  never.set();
  all.release();
  scope_.wait();
  EXPECT_THAT(order_, ElementsAre(1, 2, 0));
}

TEST_F(SemaphoreAcquire, ServesInArrivalOrder) {
  Permit lease = budget_.try_acquire(10);
  for (int number = 0; number < 5; ++number) {
    spawn_taker(scope_, 2, number, Event::happened());
  }

  lease.release();
  scope_.wait();

  EXPECT_THAT(order_, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(SemaphoreAcquire, LetsNobodyOvertakeALargeRequest) {
  const Event done;
  spawn_taker(scope_, 6, 0, done);
  spawn_taker(scope_, 8, 1, done);

  spawn_taker(scope_, 1, 2, done);

  EXPECT_EQ(budget_.waiting(), 2U);
  EXPECT_FALSE(budget_.try_acquire(1));
  done.set();
  scope_.wait();
  EXPECT_THAT(order_, ElementsAre(0, 1, 2));
}

TEST_F(SemaphoreAcquire, GrantsMoreThanTheCapacityAlone) {
  const Event done;
  spawn_taker(scope_, 1, 0, done);
  spawn_taker(scope_, 100, 1, done);
  EXPECT_EQ(budget_.waiting(), 1U);

  done.set();
  scope_.wait();
  const Permit huge = run(budget_.acquire(100));

  EXPECT_FALSE(budget_.try_acquire(1));
  EXPECT_FALSE(budget_.try_acquire(0));
}

TEST_F(SemaphoreAcquire, GivesALeaseOfNoBytes) {
  EXPECT_TRUE(run(budget_.acquire(0)));
  EXPECT_EQ(budget_.taken(), 0U);
}

TEST_F(SemaphoreCancel, LetsTheNextOneInWhenTheOneInFrontLeaves) {
  const Event done;
  TaskScope leaver(strand_);
  spawn_taker(scope_, 6, 0, done);
  spawn_taker(leaver, 8, 1, done);
  spawn_taker(scope_, 4, 2, done);

  leaver.cancel();
  leaver.wait();

  EXPECT_TRUE(eventually([&] { return budget_.taken() == 10; }));
  done.set();
  scope_.wait();
  EXPECT_THAT(order_, ElementsAre(0, 2));
}

TEST_F(SemaphoreCancel, TakesAWaiterOutOfTheMiddle) {
  const Event done;
  TaskScope leaver(strand_);
  spawn_taker(scope_, 10, 0, done);
  spawn_taker(scope_, 4, 1, done);
  spawn_taker(leaver, 4, 2, done);
  spawn_taker(scope_, 4, 3, done);

  leaver.cancel();
  leaver.wait();

  EXPECT_EQ(budget_.waiting(), 2U);
  done.set();
  scope_.wait();
  EXPECT_THAT(order_, ElementsAre(0, 1, 3));
  EXPECT_EQ(budget_.taken(), 0U);
}

TEST_F(SemaphoreCancel, LosesNoBytesWhenItRacesWithGrants) {
  for (int round = 0; round < 200; ++round) {
    Permit lease = budget_.try_acquire(10);
    TaskScope racer(strand_);
    spawn_taker(racer, 5, 0, Event::happened());
    std::jthread canceller([&] { racer.cancel(); });
    lease.release();
    canceller.join();
    racer.wait();

    ASSERT_TRUE(eventually([&] { return budget_.taken() == 0; }));
    ASSERT_EQ(budget_.waiting(), 0U);
  }
}

Awaitable<> take_many(Semaphore budget, unsigned seed, std::atomic<std::size_t>* held,
                      std::atomic<std::size_t>* most) {
  std::mt19937 random(seed);
  for (int i = 0; i < 200; ++i) {
    const std::size_t bytes = random() % 8;
    const Permit lease = co_await budget.acquire(bytes);
    const std::size_t now = held->fetch_add(bytes) + bytes;
    for (std::size_t before = *most; before < now && !most->compare_exchange_weak(before, now);) {
    }
    held->fetch_sub(bytes);
  }
}

TEST(SemaphoreStress, NeverExceedsItsCapacityOnEightThreads) {
  ThreadPool pool(8, "test");
  Semaphore budget(10);
  std::atomic<std::size_t> held = 0;
  std::atomic<std::size_t> most = 0;
  std::vector<Event> ended;
  for (unsigned seed = 0; seed < 16; ++seed) {
    ended.push_back(start(make_strand(pool.executor()), take_many(budget, seed, &held, &most)));
  }

  for (const Event& event : ended) {
    event.get();
  }

  EXPECT_LE(most, 10U);
  EXPECT_EQ(budget.taken(), 0U);
}

}  // namespace
}  // namespace cairn::async
