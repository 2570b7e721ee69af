// SPDX-License-Identifier: Apache-2.0
#include "async/internal/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <gmock/gmock.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "async/internal/event.hpp"
#include "async/internal/semaphore.hpp"
#include "async/internal/sleep.hpp"
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
using testing::start;
using testing::sync_wait;
using testing::TaskScope;

Awaitable<> hold(Awaitable<> wait, Token /*token*/) {
  co_await std::move(wait);
}

Awaitable<> hold_bytes(Semaphore budget, Token /*token*/) {
  const Permit lease = co_await budget.acquire(1);
}

Awaitable<> hold_children(Event event, Token token) {
  std::vector<Awaitable<>> children;
  children.push_back(hold(event.wait(), token));
  children.push_back(hold(sleep_for(1h), token));
  co_await when_all(std::move(children));
}

Awaitable<> offload_to(ThreadPool* pool, std::function<void()> work, Token /*token*/ = nullptr) {
  co_await offload(*pool, std::move(work));
}

Awaitable<int> offload_result(ThreadPool* pool, int value) {
  auto work = [value] { return value + 1; };
  co_return co_await offload(*pool, std::move(work));
}

Awaitable<std::unique_ptr<int>> offload_move_only(ThreadPool* pool) {
  auto work = [] { return std::make_unique<int>(7); };
  co_return co_await offload(*pool, std::move(work));
}

TEST(ThreadPool, HasOneThreadAtLeast) {
  EXPECT_EQ(ThreadPool(0, "none").size(), 1U);
  EXPECT_EQ(ThreadPool(3, "three").size(), 3U);
}

TEST(ThreadPool, TakesANameOfAnyLength) {
  EXPECT_EQ(ThreadPool(1, "a name that is longer than the system's fifteen bytes").size(), 1U);
}

TEST(ThreadPool, KnowsItsOwnThreads) {
  ThreadPool pool(1, "test");
  Mailbox<bool> inside;

  pool.submit([&] { inside.put(pool.runs_this_thread()); });

  EXPECT_TRUE(inside.take());
  EXPECT_FALSE(pool.runs_this_thread());
}

TEST(ThreadPoolDestructor, FinishesWhatRunsAndDropsWhatWaits) {
  std::optional<ThreadPool> pool(std::in_place, 1, "test");
  Mailbox<bool> has_begun;
  std::atomic<bool> is_released = false;
  std::atomic<bool> has_finished = false;
  std::atomic<bool> has_queued_run = false;
  Token token = make_token();
  const std::weak_ptr<int> queued = token;
  pool->submit([&] {
    has_begun.put(true);
    eventually([&] { return is_released.load(); });
    has_finished = true;
  });
  pool->submit([&, held = std::move(token)] { has_queued_run = true; });
  has_begun.take();

  std::jthread releaser([&] {
    std::this_thread::sleep_for(50ms);  // The pool has been told to stop by then.
    is_released = true;
  });
  pool.reset();

  EXPECT_TRUE(has_finished);
  EXPECT_FALSE(has_queued_run);
  EXPECT_TRUE(queued.expired());
}

TEST(ThreadPoolDestructor, DestroysCoroutinesThatWaitForAnEvent) {
  std::optional<ThreadPool> pool(std::in_place, 2, "test");
  const Event never;
  Token token = make_token();
  const std::weak_ptr<int> frame = token;
  const Event ended = start(make_strand(pool->executor()), hold(never.wait(), std::move(token)));

  pool.reset();

  EXPECT_TRUE(frame.expired());
  EXPECT_THAT([&] { ended.get(); }, Fails(Errc::closed, HasSubstr("executor")));
  never.set();
}

TEST(ThreadPoolDestructor, DestroysCoroutinesWithoutAStrand) {
  std::optional<ThreadPool> pool(std::in_place, 2, "test");
  const Event never;
  Token token = make_token();
  const std::weak_ptr<int> frame = token;
  const Event ended = start(pool->executor(), hold(never.wait(), std::move(token)));

  pool.reset();

  EXPECT_TRUE(frame.expired());
  EXPECT_TRUE(ended.has_happened());
}

TEST(ThreadPoolDestructor, DestroysCoroutinesThatSleep) {
  std::optional<ThreadPool> pool(std::in_place, 2, "test");
  Token token = make_token();
  const std::weak_ptr<int> frame = token;
  const Event ended = start(make_strand(pool->executor()), hold(sleep_for(1h), std::move(token)));

  pool.reset();

  EXPECT_TRUE(frame.expired());
  EXPECT_TRUE(ended.has_happened());
}

TEST(ThreadPoolDestructor, DestroysParentsWithTheirChildren) {
  std::optional<ThreadPool> pool(std::in_place, 2, "test");
  const Event never;
  Token token = make_token();
  const std::weak_ptr<int> frames = token;
  const Event ended = start(make_strand(pool->executor()), hold_children(never, std::move(token)));

  pool.reset();

  EXPECT_TRUE(frames.expired());
  EXPECT_TRUE(ended.has_happened());
}

TEST(ThreadPoolDestructor, LeavesABudgetThatItsCoroutinesWaitedForUsable) {
  ThreadPool other(1, "other");
  std::optional<ThreadPool> pool(std::in_place, 2, "test");
  Semaphore budget(1);
  Permit lease = budget.try_acquire(1);
  const Event first = start(make_strand(pool->executor()), hold_bytes(budget, make_token()));
  ASSERT_TRUE(eventually([&] { return budget.waiting() == 1; }));
  const Event second = start(make_strand(other.executor()), hold_bytes(budget, make_token()));
  ASSERT_TRUE(eventually([&] { return budget.waiting() == 2; }));

  pool.reset();
  EXPECT_EQ(budget.waiting(), 1U);
  lease.release();

  EXPECT_TRUE(second.wait_for(10s));
  EXPECT_TRUE(eventually([&] { return budget.taken() == 0; }));
}

TEST(ThreadPoolDestructor, DestroysEachFrameOnceWhileEverythingMoves) {
  for (int round = 0; round < 50; ++round) {
    std::optional<ThreadPool> pool(std::in_place, 3, "test");
    Semaphore budget(2);
    Token token = make_token();
    const std::weak_ptr<int> frames = token;
    std::vector<Event> ended;
    for (int i = 0; i < 20; ++i) {
      const Executor strand = make_strand(pool->executor());
      ended.push_back(start(strand, hold_bytes(budget, token)));
      ended.push_back(start(strand, offload_to(
                                        &*pool, [] {}, token)));
      ended.push_back(start(strand, hold(sleep_for(std::chrono::microseconds(50 * i)), token)));
    }
    token.reset();

    pool.reset();

    ASSERT_TRUE(frames.expired());
    ASSERT_TRUE(std::all_of(ended.begin(), ended.end(), [](const Event& e) { return e.has_happened(); }));
    ASSERT_EQ(budget.taken(), 0U);
  }
}

TEST(Offload, ReturnsWhatTheWorkReturns) {
  ThreadPool workers(1, "work");

  EXPECT_EQ(testing::run(offload_result(&workers, 41)), 42);
  EXPECT_EQ(*testing::run(offload_move_only(&workers)), 7);
}

TEST(Offload, RunsOnThePool) {
  ThreadPool workers(1, "work");
  bool is_inside = false;

  testing::run(offload_to(&workers, [&] { is_inside = workers.runs_this_thread(); }));

  EXPECT_TRUE(is_inside);
}

TEST(Offload, RethrowsWhatTheWorkThrows) {
  ThreadPool workers(1, "work");
  auto work = [] { throw Error(Errc::io_failure, "disk"); };

  EXPECT_THAT([&] { testing::run(offload_to(&workers, work)); }, Fails(Errc::io_failure, HasSubstr("disk")));
}

Awaitable<> note_thread_after(Awaitable<> first, ThreadPool* own, bool* is_inside) {
  co_await std::move(first);
  *is_inside = own->runs_this_thread();
}

TEST(Offload, ContinuesOnTheCallersExecutor) {
  ThreadPool workers(1, "work");
  ThreadPool own(1, "own");
  bool is_inside = false;

  sync_wait(make_strand(own.executor()), note_thread_after(offload_to(&workers, [] {}), &own, &is_inside));

  EXPECT_TRUE(is_inside);
}

TEST(Offload, WaitsForTheWorkWhenCancelled) {
  ThreadPool workers(1, "work");
  ThreadPool own(1, "own");
  Mailbox<bool> has_begun;
  std::atomic<bool> is_released = false;
  std::atomic<bool> has_finished = false;
  TaskScope scope(make_strand(own.executor()));
  scope.spawn(offload_to(&workers, [&] {
    has_begun.put(true);
    eventually([&] { return is_released.load(); });
    has_finished = true;
  }));
  has_begun.take();

  scope.cancel();
  std::this_thread::sleep_for(10ms);
  is_released = true;
  scope.wait();

  EXPECT_TRUE(has_finished);
}

TEST(Offload, IsDestroyedWithAPoolThatNeverBeganTheWork) {
  ThreadPool own(1, "own");
  std::optional<ThreadPool> workers(std::in_place, 1, "work");
  Mailbox<bool> has_begun;
  std::atomic<bool> is_released = false;
  workers->submit([&] {
    has_begun.put(true);
    eventually([&] { return is_released.load(); });
  });
  has_begun.take();
  Token token = make_token();
  const std::weak_ptr<int> frame = token;
  std::atomic<bool> has_run = false;
  const Event ended = start(own.executor(), offload_to(
                                                &*workers, [&] { has_run = true; }, std::move(token)));

  std::jthread releaser([&] {
    std::this_thread::sleep_for(50ms);  // The workers have been told to stop by then.
    is_released = true;
  });
  workers.reset();

  EXPECT_THAT([&] { ended.get(); }, Fails(Errc::closed));
  EXPECT_TRUE(eventually([&] { return frame.expired(); }));
  EXPECT_FALSE(has_run);
}

Awaitable<> enter_and_leave(std::atomic<int>* inside, std::atomic<int>* most) {
  const int now = ++*inside;
  *most = std::max(most->load(), now);
  --*inside;
  co_return;
}

TEST(Strand, NeverRunsTwoThingsAtTheSameTime) {
  ThreadPool pool(8, "test");
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  TaskScope scope(make_strand(pool.executor()));

  for (int i = 0; i < 1000; ++i) {
    scope.spawn(enter_and_leave(&inside, &most));
  }
  scope.wait();

  EXPECT_EQ(most, 1);
}

TEST(Strand, KeepsTheOrderOfWhatIsPosted) {
  ThreadPool pool(4, "test");
  const Executor strand = make_strand(pool.executor());
  std::vector<int> order;
  Event ended;

  for (int i = 0; i < 1000; ++i) {
    boost::asio::post(strand, [&order, i] { order.push_back(i); });
  }
  boost::asio::post(strand, [&] { ended.set(); });
  ended.get();

  ASSERT_EQ(order.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Strand, RunsAtOnceWhatItsOwnWorkDispatches) {
  ThreadPool pool(2, "test");
  const Executor strand = make_strand(pool.executor());
  bool has_run = false;
  bool was_at_once = false;
  Event ended;

  boost::asio::post(strand, [&] {
    boost::asio::dispatch(strand, [&] { has_run = true; });
    was_at_once = has_run;
    ended.set();
  });
  ended.get();

  EXPECT_TRUE(was_at_once);
}

TEST(Strand, RunsLaterWhatItsOwnWorkPosts) {
  ThreadPool pool(2, "test");
  const Executor strand = make_strand(pool.executor());
  bool is_over = false;
  bool was_later = false;
  Event ended;

  boost::asio::post(strand, [&] {
    boost::asio::post(strand, [&] {
      was_later = is_over;
      ended.set();
    });
    is_over = true;
  });
  ended.get();

  EXPECT_TRUE(was_later);
}

/// Posts itself when it is given up, as destructors of coroutines may.
struct PostsWhenDropped {
  explicit PostsWhenDropped(Executor where, Token kept) : strand(std::move(where)), token(std::move(kept)) {}

  PostsWhenDropped(PostsWhenDropped&&) = default;
  PostsWhenDropped& operator=(PostsWhenDropped&&) = delete;

  ~PostsWhenDropped() {
    if (token) {
      boost::asio::post(strand, [kept = std::move(token)] { static_cast<void>(kept); });
    }
  }

  void operator()() const {}

  Executor strand;
  Token token;
};

TEST(Strand, DropsWhatWaitsWhenItsPoolGoes) {
  std::optional<ThreadPool> pool(std::in_place, 1, "test");
  const Executor strand = make_strand(pool->executor());
  Token token = make_token();
  const std::weak_ptr<int> held = token;
  Mailbox<int> has_begun;
  std::atomic<bool> is_released = false;
  pool->submit([&] {
    has_begun.put(1);
    EXPECT_TRUE(eventually([&] { return is_released.load(); }));
  });
  has_begun.take();
  boost::asio::post(strand, PostsWhenDropped(strand, std::move(token)));

  std::jthread releaser([&] {
    std::this_thread::sleep_for(50ms);  // The pool has been told to stop by then.
    is_released = true;
  });
  pool.reset();

  EXPECT_TRUE(held.expired());
}

}  // namespace
}  // namespace cairn::async
