// SPDX-License-Identifier: Apache-2.0
#include "async/internal/suspend.hpp"

#include <system_error>

#include <atomic>
#include <cerrno>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "async/internal/thread_pool.hpp"
#include "async/parked.hpp"
#include "async/tasks.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"
#include "support/sync_wait.hpp"
#include "support/task_scope.hpp"

namespace cairn::async {
namespace {

using testing::eventually;
using testing::Fails;
using ::testing::HasSubstr;
using testing::run;
using testing::start;
using testing::sync_wait;
using testing::TaskScope;

class Suspend : public ::testing::Test {
 protected:
  ThreadPool pool_{4, "test"};
  Executor strand_ = make_strand(pool_.executor());
  Mailbox<Resume> handles_;
};

using SuspendCancel = Suspend;

std::exception_ptr failure_of(const Event& event) {
  try {
    event.get();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

std::exception_ptr joined(const Executor& strand, TaskScope& scope) {
  return failure_of(start(strand, scope.join()));
}

TEST_F(Suspend, ContinuesWhenAnotherThreadResumes) {
  const Event ended = start(strand_, park(&handles_));
  const Resume resume = handles_.take();
  EXPECT_FALSE(ended.has_happened());

  resume();

  EXPECT_EQ(failure_of(ended), nullptr);
}

TEST_F(Suspend, ContinuesWhenResumedBeforeStartReturns) {
  Start at_once = [](const Resume& resume) { resume(); };

  EXPECT_NO_THROW(sync_wait(strand_, suspend(at_once)));
}

TEST_F(Suspend, ThrowsWhatItIsResumedWith) {
  const Event ended = start(strand_, park(&handles_));

  handles_.take()(std::make_exception_ptr(Error(Errc::io_failure, "disk")));

  EXPECT_THAT([&] { ended.get(); }, Fails(Errc::io_failure, HasSubstr("disk")));
}

TEST_F(Suspend, IgnoresTheSecondCall) {
  std::atomic<int> count = 0;
  const Event ended = start(strand_, count_after(park(&handles_), &count));
  const Resume resume = handles_.take();

  resume();
  resume(std::make_exception_ptr(std::runtime_error("too late")));

  EXPECT_EQ(failure_of(ended), nullptr);
  EXPECT_EQ(count, 1);
}

TEST_F(Suspend, IsResumedOnceWhenThreadsRaceForIt) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> count = 0;
    const Event ended = start(strand_, count_after(park(&handles_), &count));
    const Resume resume = handles_.take();

    {
      std::vector<std::jthread> racers;
      for (int i = 0; i < 4; ++i) {
        racers.emplace_back([resume] { resume(); });
      }
    }

    ASSERT_EQ(failure_of(ended), nullptr);
    ASSERT_EQ(count, 1);
  }
}

TEST_F(Suspend, DestroysTheCoroutineWhenTheLastHandleIsDropped) {
  Token token = make_token();
  const std::weak_ptr<int> frame = token;
  const Event ended = start(strand_, park(&handles_, std::move(token)));
  std::optional<Resume> resume = handles_.take();
  EXPECT_FALSE(frame.expired());

  resume.reset();

  EXPECT_TRUE(eventually([&] { return frame.expired(); }));
  EXPECT_THAT([&] { ended.get(); }, Fails(Errc::closed));
}

TEST_F(Suspend, DestroysTheCoroutineWhenItsPoolGoesFirst) {
  std::optional<ThreadPool> pool(std::in_place, 2, "short");
  Token token = make_token();
  const std::weak_ptr<int> frame = token;
  const Event ended = start(make_strand(pool->executor()), park(&handles_, std::move(token)));
  const Resume resume = handles_.take();

  pool.reset();

  EXPECT_TRUE(frame.expired());
  resume();
  EXPECT_THAT([&] { ended.get(); }, Fails(Errc::closed));
}

TEST_F(Suspend, SurvivesAResumptionThatRacesWithTheEndOfThePool) {
  for (int round = 0; round < 200; ++round) {
    std::optional<ThreadPool> pool(std::in_place, 2, "short");
    Token token = make_token();
    const std::weak_ptr<int> frame = token;
    const Event ended = start(make_strand(pool->executor()), park(&handles_, std::move(token)));

    std::jthread resumer([resume = handles_.take()] { resume(); });
    pool.reset();
    resumer.join();

    ASSERT_TRUE(frame.expired());
    ASSERT_TRUE(ended.has_happened());
  }
}

TEST_F(Suspend, SurvivesADropThatRacesWithTheEndOfThePool) {
  for (int round = 0; round < 200; ++round) {
    std::optional<ThreadPool> pool(std::in_place, 2, "short");
    Token token = make_token();
    const std::weak_ptr<int> frame = token;
    const Event ended = start(make_strand(pool->executor()), park(&handles_, std::move(token)));

    std::jthread dropper([resume = std::optional<Resume>(handles_.take())]() mutable { resume.reset(); });
    pool.reset();
    dropper.join();

    ASSERT_TRUE(frame.expired());
    ASSERT_TRUE(ended.has_happened());
  }
}

TEST_F(SuspendCancel, CallsTheHookWhichResumes) {
  TaskScope scope(strand_);
  OnCancel stop = [](const Resume& resume) { resume(cancelled()); };
  scope.spawn(park(&handles_, nullptr, stop));
  const Resume kept = handles_.take();

  scope.cancel();

  EXPECT_TRUE(is_cancelled(joined(strand_, scope)));
}

TEST_F(SuspendCancel, WaitsForTheResumptionWithoutAHook) {
  TaskScope scope(strand_);
  scope.spawn(park(&handles_));
  const Resume resume = handles_.take();
  scope.cancel();
  const Event ended = start(strand_, scope.join());
  EXPECT_FALSE(ended.wait_for(std::chrono::milliseconds(20)));

  resume();

  EXPECT_EQ(failure_of(ended), nullptr);
}

Awaitable<> cancel_then_resume(TaskScope* scope, Resume resume) {
  scope->cancel();  // Raised in a later turn of the strand,
  resume();         // before the one that continues the coroutine.
  co_return;
}

TEST_F(SuspendCancel, LeavesTheHookAloneAfterTheResumptionWasPosted) {
  std::atomic<int> hooks = 0;
  std::atomic<int> continued = 0;
  TaskScope scope(strand_);
  OnCancel stop = [&](const Resume& resume) {
    ++hooks;
    resume(cancelled());
  };
  scope.spawn(count_after(park(&handles_, nullptr, stop), &continued));

  sync_wait(strand_, cancel_then_resume(&scope, handles_.take()));

  EXPECT_EQ(joined(strand_, scope), nullptr);
  EXPECT_EQ(hooks, 0);
  EXPECT_EQ(continued, 1);
}

TEST_F(SuspendCancel, LeavesTheHookAloneWhenTheCoroutineWasDropped) {
  std::atomic<int> hooks = 0;
  Token token = make_token();
  const std::weak_ptr<int> frame = token;
  TaskScope scope(strand_);
  OnCancel stop = [&](const Resume&) { ++hooks; };
  scope.spawn(park(&handles_, std::move(token), stop));
  { const Resume dropped = handles_.take(); }

  scope.cancel();

  EXPECT_THAT([&] { std::rethrow_exception(joined(strand_, scope)); }, Fails(Errc::closed));
  EXPECT_TRUE(eventually([&] { return frame.expired(); }));
  EXPECT_EQ(hooks, 0);
}

TEST_F(SuspendCancel, RacesWithResumptionsWithoutHarm) {
  for (int round = 0; round < 200; ++round) {
    TaskScope scope(strand_);
    OnCancel stop = [](const Resume& resume) { resume(cancelled()); };
    scope.spawn(park(&handles_, nullptr, stop));
    const Resume resume = handles_.take();

    std::jthread canceller([&] { scope.cancel(); });
    resume();
    canceller.join();

    const std::exception_ptr failure = joined(strand_, scope);
    ASSERT_TRUE(!failure || is_cancelled(failure));
  }
}

Awaitable<> see_cancellation(Mailbox<Resume>* handles, bool* before, bool* after) {
  *before = co_await cancellation_requested();
  co_await park(handles);
  try {
    *after = co_await cancellation_requested();
  } catch (const std::exception&) {
    *after = true;  // `co_await` itself refuses in a cancelled coroutine.
  }
}

TEST_F(SuspendCancel, IsSeenByTheCoroutine) {
  bool before = true;
  bool after = false;
  TaskScope scope(strand_);
  scope.spawn(see_cancellation(&handles_, &before, &after));

  sync_wait(strand_, cancel_then_resume(&scope, handles_.take()));

  EXPECT_EQ(joined(strand_, scope), nullptr);
  EXPECT_FALSE(before);
  EXPECT_TRUE(after);
}

TEST(IsCancelled, KnowsTheExceptionsOfCancelledOperations) {
  EXPECT_TRUE(is_cancelled(cancelled()));
  EXPECT_TRUE(is_cancelled(std::make_exception_ptr(Error(Errc::cancelled, "save"))));
}

TEST(IsCancelled, IsFalseForAllOthers) {
  EXPECT_FALSE(is_cancelled(nullptr));
  EXPECT_FALSE(is_cancelled(std::make_exception_ptr(7)));
  EXPECT_FALSE(is_cancelled(std::make_exception_ptr(Error(Errc::closed, "budget"))));
}

TEST(IsCancelled, IsFalseForAnErrorOfTheOperatingSystem) {
  const std::error_code cancelled_request(ECANCELED, std::system_category());

  EXPECT_FALSE(is_cancelled(std::make_exception_ptr(Error(cancelled_request, "write step/data"))));
}

TEST_F(Suspend, ThrowsWhatItsStartThrows) {
  const Start start = [](const Resume&) { throw std::bad_alloc(); };

  EXPECT_THROW(run(suspend(start)), std::bad_alloc);
}

}  // namespace
}  // namespace cairn::async
