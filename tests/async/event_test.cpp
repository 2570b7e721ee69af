// SPDX-License-Identifier: Apache-2.0
#include "async/internal/event.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "async/internal/sleep.hpp"
#include "async/internal/thread_pool.hpp"
#include "async/parked.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"
#include "support/sync_wait.hpp"
#include "support/task_scope.hpp"

namespace cairn::async {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::Fails;
using ::testing::HasSubstr;
using testing::run;
using testing::start;
using testing::sync_wait;
using testing::TaskScope;

std::exception_ptr failure() {
  return std::make_exception_ptr(Error(Errc::io_failure, "disk"));
}

Awaitable<> wait_and_count(Event event, std::atomic<int>* count, Token /*token*/ = nullptr) {
  co_await event.wait();
  ++*count;
}

/// Unlike `wait_and_count` it keeps no reference to the event.
Awaitable<> wait_only(Awaitable<> wait, Token /*token*/) {
  co_await std::move(wait);
}

TEST(Event, HasNotHappenedAtFirst) {
  const Event event;

  EXPECT_FALSE(event.has_happened());
  EXPECT_FALSE(event.wait_for(0ns));
}

TEST(Event, HappensOnce) {
  const Event event;

  EXPECT_TRUE(event.set());
  EXPECT_FALSE(event.set());
  EXPECT_FALSE(event.fail(failure()));
  EXPECT_NO_THROW(event.get());
}

TEST(Event, CanBeBornHappened) {
  EXPECT_TRUE(Event::happened().has_happened());
}

TEST(Event, IsSharedByItsCopies) {
  const Event event;
  const Event copy = event;

  copy.set();

  EXPECT_TRUE(event.has_happened());
}

TEST(EventGet, RethrowsTheFirstFailure) {
  const Event event;
  event.fail(failure());
  event.fail(std::make_exception_ptr(std::runtime_error("second")));

  EXPECT_THAT([&] { event.get(); }, Fails(Errc::io_failure, HasSubstr("disk")));
}

TEST(EventGet, BlocksUntilItHappens) {
  const Event event;
  std::jthread setter([event] {
    std::this_thread::sleep_for(5ms);
    event.set();
  });

  event.get();

  EXPECT_TRUE(event.has_happened());
}

TEST(EventWaitFor, GivesUpAfterTheTimeout) {
  const Event event;
  const auto begin = std::chrono::steady_clock::now();

  EXPECT_FALSE(event.wait_for(10ms));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 10ms);
}

TEST(EventWaitFor, TreatsTheLongestTimeAsForEver) {
  const Event event;
  std::jthread setter([event] {
    std::this_thread::sleep_for(5ms);
    event.set();
  });

  EXPECT_TRUE(event.wait_for(std::chrono::nanoseconds::max()));
}

TEST(EventWaitFor, ReturnsAtOnceForATimeInThePast) {
  EXPECT_FALSE(Event().wait_for(std::chrono::nanoseconds::min()));
}

TEST(EventWaitFor, SaysThatAFailureHappenedWithoutThrowing) {
  const Event event;
  event.fail(failure());

  EXPECT_TRUE(event.wait_for(0ns));
}

TEST(EventWait, ContinuesAtOnceWhenItHasHappened) {
  std::atomic<int> count = 0;

  run(wait_and_count(Event::happened(), &count));

  EXPECT_EQ(count, 1);
}

TEST(EventWait, ThrowsTheFailureThatHappenedBefore) {
  std::atomic<int> count = 0;
  const Event event;
  event.fail(failure());

  EXPECT_THAT([&] { run(wait_and_count(event, &count)); }, Fails(Errc::io_failure));
}

TEST(EventWait, ThrowsTheFailureThatHappensLater) {
  std::atomic<int> count = 0;
  const Event event;
  std::jthread failer([event] {
    std::this_thread::sleep_for(5ms);
    event.fail(failure());
  });

  EXPECT_THAT([&] { run(wait_and_count(event, &count)); }, Fails(Errc::io_failure));
}

TEST(EventWait, WakesEveryWaiter) {
  ThreadPool pool(4, "test");
  const Executor strand = make_strand(pool.executor());
  std::atomic<int> count = 0;
  const Event event;
  TaskScope scope(strand);
  for (int i = 0; i < 1000; ++i) {
    scope.spawn(wait_and_count(event, &count));
  }

  event.set();
  scope.wait();

  EXPECT_EQ(count, 1000);
}

TEST(EventWait, LosesNoWakeUpWhenSettingRacesWithWaiting) {
  ThreadPool pool(4, "test");
  std::atomic<int> count = 0;
  for (int round = 0; round < 500; ++round) {
    const Event event;
    std::jthread setter([event] { event.set(); });

    sync_wait(make_strand(pool.executor()), wait_and_count(event, &count));
  }

  EXPECT_EQ(count, 500);
}

TEST(EventWait, StopsForTheOneWhoIsCancelledOnly) {
  ThreadPool pool(2, "test");
  const Executor strand = make_strand(pool.executor());
  std::atomic<int> stopped = 0;
  std::atomic<int> patient = 0;
  const Event event;
  TaskScope impatient_scope(strand);
  TaskScope patient_scope(strand);
  impatient_scope.spawn(wait_and_count(event, &stopped));
  patient_scope.spawn(wait_and_count(event, &patient));

  impatient_scope.cancel();
  impatient_scope.wait();
  event.set();
  patient_scope.wait();

  EXPECT_EQ(stopped, 0);
  EXPECT_EQ(patient, 1);
}

TEST(EventWait, IsDestroyedWithAnEventThatEverybodyHasDropped) {
  ThreadPool pool(2, "test");
  Token token = make_token();
  const std::weak_ptr<int> frame = token;
  Event ended;
  {
    const Event event;
    ended = start(make_strand(pool.executor()), wait_only(event.wait(), std::move(token)));
  }

  EXPECT_TRUE(eventually([&] { return frame.expired(); }));
  EXPECT_THAT([&] { ended.get(); }, Fails(Errc::closed));
}

TEST(EventOnComplete, CallsBackAtOnceWhenItHasHappened) {
  int calls = 0;

  Event::happened().on_complete([&](const std::exception_ptr& why) { calls += why ? 100 : 1; });

  EXPECT_EQ(calls, 1);
}

TEST(EventOnComplete, CallsEveryCallbackWithTheFailure) {
  int failures = 0;
  const Event event;
  event.on_complete([&](const std::exception_ptr& why) { failures += why ? 1 : 0; });
  event.on_complete([&](const std::exception_ptr& why) { failures += why ? 1 : 0; });
  EXPECT_EQ(failures, 0);

  event.fail(failure());

  EXPECT_EQ(failures, 2);
}

TEST(EventOnComplete, MayUseTheEventInACallback) {
  bool seen = false;
  const Event event;
  event.on_complete([&](const std::exception_ptr&) { seen = event.has_happened(); });

  event.set();

  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace cairn::async
