// SPDX-License-Identifier: Apache-2.0
#include "core/operation.hpp"

#include <system_error>

#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/core/context.hpp"

#include "async/internal/event.hpp"
#include "async/internal/suspend.hpp"
#include "base/internal/mutex.hpp"
#include "support/fails.hpp"
#include "support/manual_clock.hpp"

namespace cairn::core {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

/// An operation without work of its own, which keeps the order of what happens to it.
class Noted final : public Operation {
 public:
  Noted(const std::shared_ptr<Services>& services, Kind kind)
      : Operation(services, "save of /a", services->clock.steady_now(), nullptr, kind) {
    answered().on_complete([this](const std::exception_ptr&) { note("answered"); });
  }

  using Operation::blocking_lane;
  using Operation::leave_caller;
  using Operation::mark_prepared;
  using Operation::run_phase;

  void note(std::string_view what) {
    const MutexLock lock(mutex_);
    notes_.emplace_back(what);
  }
  [[nodiscard]] std::vector<std::string> notes() const {
    const MutexLock lock(mutex_);
    return notes_;
  }

  SomeRanks missing;

 private:
  void refuse_effect() noexcept override { note("refuse effect"); }
  [[nodiscard]] SomeRanks missing_ranks() const override { return missing; }
  void make_way() noexcept override { note("make way"); }
  void count_end(const std::exception_ptr& /*failure*/) override { note("count"); }
  void clear_up() noexcept override { note("clear up"); }

  mutable Mutex mutex_;
  std::vector<std::string> notes_ CAIRN_GUARDED_BY(mutex_);
};

Awaitable<> end_at_once() {
  co_return;
}

Awaitable<> fail() {
  throw Error(Errc::io_failure, "the disk is broken");
  co_return;
}

/// Waits for an event, also when it is cancelled.
Awaitable<> wait_stubbornly(async::Event has_begun, async::Event event) {
  async::Start start = [has_begun, event](const async::Resume& resume) {
    has_begun.set();
    event.on_complete([resume](const std::exception_ptr&) { resume(); });
  };
  async::OnCancel ignore = [](const async::Resume&) {};
  co_await async::suspend(std::move(start), std::move(ignore));
}

Awaitable<> wait_until_cancelled(std::shared_ptr<Noted> self, async::Event has_begun, async::Event never) {
  has_begun.set();
  try {
    co_await never.wait();
  } catch (...) {
    self->note("cancelled");
    throw;
  }
}

Awaitable<> prepare(std::shared_ptr<Noted> self) {
  self->mark_prepared();
  co_return;
}

Awaitable<> prepare_and_wait(std::shared_ptr<Noted> self, async::Event event) {
  self->mark_prepared();
  co_await event.wait();
}

class OperationTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kGrace{5};

  OperationTest() {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.clock = clock_;
    options.stop_grace = kGrace;
    context_.emplace(std::move(options));
  }

  ~OperationTest() override { may_end_.set(); }

  [[nodiscard]] std::shared_ptr<Services> services() const { return services_of(*context_); }

  [[nodiscard]] std::shared_ptr<Noted> make(CallerMemoryUse memory = CallerMemoryUse::unused,
                                            BlockingPhase blocking = BlockingPhase::by_context) const {
    return std::make_shared<Noted>(services(), Operation::Kind(memory, blocking));
  }

  const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
  const async::Event has_begun_;
  const async::Event may_end_;
  std::optional<Context> context_;
};

TEST_F(OperationTest, MakesWayAndIsCountedBeforeItIsAnswered) {
  const auto operation = make();

  operation->launch(end_at_once(), 0ns);
  operation->done().get();

  EXPECT_NO_THROW(operation->answered().get());
  EXPECT_TRUE(operation->told().has_happened());
  EXPECT_TRUE(operation->is_done());
  EXPECT_THAT(operation->notes(), ElementsAre("make way", "count", "answered", "clear up"));
}

TEST_F(OperationTest, TellsAllWhoWaitOfItsFailure) {
  const auto operation = make();

  operation->launch(fail(), 0ns);

  EXPECT_THAT([&] { operation->prepared().get(); }, Fails(Errc::io_failure, HasSubstr("the disk is broken")));
  EXPECT_THAT([&] { operation->answered().get(); }, Fails(Errc::io_failure, HasSubstr("the disk is broken")));
}

TEST_F(OperationTest, IsStoppedAtItsDeadlineAndNamesTheRanksThatItWaitsFor) {
  const auto operation = make();
  operation->missing.add(3);
  operation->launch(may_end_.wait(), 2s);

  clock_->advance(2s);

  EXPECT_THAT(
      [&] { operation->answered().get(); },
      Fails(Errc::timed_out, HasSubstr("save of /a: not done after 2.000 s; still waiting for rank 3")));
}

TEST_F(OperationTest, RefusesItsEffectBeforeItsWorkIsCancelled) {
  const auto operation = make();
  operation->launch(wait_until_cancelled(operation, has_begun_, may_end_), 0ns);
  has_begun_.get();

  operation->stop(Errc::superseded, "the first reason");
  operation->stop(Errc::closed, "the second reason");
  operation->done().get();

  EXPECT_THAT([&] { operation->answered().get(); },
              Fails(Errc::superseded, HasSubstr("save of /a: the first reason")));
  EXPECT_THAT(operation->notes(),
              ElementsAre("refuse effect", "cancelled", "make way", "count", "answered", "clear up"));
}

TEST_F(OperationTest, CannotBeStoppedOnceItHasEnded) {
  const auto operation = make();
  operation->launch(end_at_once(), 0ns);
  operation->done().get();

  operation->stop(Errc::cancelled, "too late");

  EXPECT_NO_THROW(operation->answered().get());
  EXPECT_THAT(operation->notes(), ElementsAre("make way", "count", "answered", "clear up"));
}

TEST_F(OperationTest, IsAnsweredWithoutItsEndAfterTheGrace) {
  const auto operation = make();
  operation->launch(wait_stubbornly(has_begun_, may_end_), 0ns);
  has_begun_.get();
  operation->stop(Errc::cancelled, "by the test");

  clock_->advance(kGrace);

  EXPECT_THAT(
      [&] { operation->answered().get(); },
      Fails(Errc::cancelled, AllOf(HasSubstr("by the test"), HasSubstr("something of it still runs"))));
  EXPECT_FALSE(operation->is_done());
  operation->told().get();
  may_end_.set();
  operation->done().get();
  EXPECT_THAT(operation->notes(), ElementsAre("refuse effect", "make way", "count", "answered", "clear up"));
}

Awaitable<> go_on_after(async::Event has_begun, async::Event event, std::shared_ptr<bool> has_gone_on) {
  co_await wait_stubbornly(std::move(has_begun), std::move(event));
  *has_gone_on = true;
}

Awaitable<> run_one(std::shared_ptr<Noted> self, Awaitable<> handler) {
  std::vector<Awaitable<>> handlers;
  handlers.push_back(std::move(handler));
  co_await Noted::run_phase(self->blocking_lane(), std::move(handlers));
}

TEST_F(OperationTest, DestroysWhatHandlersHaveLeftToDoOnceItIsGivenUp) {
  const auto operation = make();
  const auto has_gone_on = std::make_shared<bool>(false);
  operation->launch(run_one(operation, go_on_after(has_begun_, may_end_, has_gone_on)), 0ns);
  has_begun_.get();
  operation->stop(Errc::cancelled, "by the test");
  clock_->advance(kGrace);
  EXPECT_THAT([&] { operation->answered().get(); }, Fails(Errc::cancelled));

  may_end_.set();
  operation->done().get();

  EXPECT_FALSE(*has_gone_on);
}

TEST_F(OperationTest, ThatBorrowsMemoryIsAnsweredWhenNothingTouchesThat) {
  const auto operation = make(CallerMemoryUse::until_done);
  async::Gate::Visit inside = operation->plane().touch_memory();
  operation->launch(end_at_once(), 0ns);
  operation->decided().get();
  EXPECT_FALSE(operation->answered().has_happened());

  inside.leave();

  EXPECT_NO_THROW(operation->answered().get());
  EXPECT_TRUE(operation->released().has_happened());
}

TEST_F(OperationTest, ThatHasCopiedIsAnsweredWhileItsMemoryIsStillTouched) {
  const auto operation = make(CallerMemoryUse::until_staged);
  async::Gate::Visit inside = operation->plane().touch_memory();

  operation->launch(prepare(operation), 0ns);

  EXPECT_NO_THROW(operation->answered().get());
  EXPECT_FALSE(operation->released().has_happened());
  inside.leave();
  EXPECT_TRUE(operation->released().has_happened());
}

TEST_F(OperationTest, LetsNobodyTouchCopiedMemoryOnceItIsPrepared) {
  const auto operation = make(CallerMemoryUse::until_staged);
  const async::Gate gate = operation->plane().blocking_gate;

  operation->launch(prepare_and_wait(operation, may_end_), 0ns);
  operation->prepared().get();

  EXPECT_FALSE(gate.try_enter());
}

/// The threads that have run each phase.
struct Phases {
  std::thread::id blocking;
  std::thread::id background;
};

Awaitable<> run_phases(std::shared_ptr<Noted> self, std::shared_ptr<Phases> phases) {
  phases->blocking = std::this_thread::get_id();
  self->mark_prepared();
  co_await Noted::leave_caller();
  phases->background = std::this_thread::get_id();
}

TEST_F(OperationTest, RunsItsBlockingPhaseAloneOnTheCallersThread) {
  const auto operation = make(CallerMemoryUse::until_staged, BlockingPhase::by_caller);
  const auto phases = std::make_shared<Phases>();
  operation->launch(run_phases(operation, phases), 0ns);
  EXPECT_FALSE(operation->prepared().has_happened());

  operation->drive();

  EXPECT_TRUE(operation->prepared().has_happened());
  operation->done().get();
  EXPECT_EQ(phases->blocking, std::this_thread::get_id());
  EXPECT_NE(phases->background, std::this_thread::get_id());
}

TEST_F(OperationTest, ComesBackToItsCallerWithAFailureWhenHisMemoryIsFree) {
  const auto operation = make(CallerMemoryUse::until_staged, BlockingPhase::by_caller);
  const auto inside = std::make_shared<async::Gate::Visit>(operation->plane().touch_memory());
  const auto was_answered = std::make_shared<bool>(true);
  services()->threads.calls.submit([operation, inside, was_answered] {
    static_cast<void>(operation->decided().wait_for(30s));
    *was_answered = operation->answered().has_happened();
    inside->leave();
  });
  operation->launch(fail(), 0ns);

  operation->drive();

  EXPECT_FALSE(*was_answered);
  EXPECT_THAT([&] { operation->answered().get(); }, Fails(Errc::io_failure));
}

Awaitable<> note_whether_it_runs_here(std::shared_ptr<Noted> self) {
  self->note(self->runs_here() ? "runs here" : "runs elsewhere");
  co_return;
}

TEST_F(OperationTest, RunsWhereItsWorkIsDone) {
  const auto operation = make();

  operation->launch(note_whether_it_runs_here(operation), 0ns);
  operation->done().get();

  EXPECT_FALSE(operation->runs_here());
  EXPECT_THAT(operation->notes(), ElementsAre("runs here", "make way", "count", "answered", "clear up"));
}

TEST_F(OperationTest, RunsWhereItsAnswerIsToldWithoutItsEnd) {
  const auto operation = make();
  const auto ran_here = std::make_shared<bool>(false);
  operation->answered().on_complete(
      [self = operation.get(), ran_here](const std::exception_ptr&) { *ran_here = self->runs_here(); });
  operation->launch(wait_stubbornly(has_begun_, may_end_), 0ns);
  has_begun_.get();
  operation->stop(Errc::cancelled, "by the test");

  clock_->advance(kGrace);

  operation->told().get();
  EXPECT_TRUE(*ran_here);
  may_end_.set();
  operation->done().get();
}

TEST_F(OperationTest, StopsWithTheWordOfAnotherRank) {
  const auto operation = make();
  operation->launch(may_end_.wait(), 0ns);

  operation->stop_because(std::make_exception_ptr(Error(Errc::superseded, "rank 0: a newer save")));

  EXPECT_THAT([&] { operation->answered().get(); },
              Fails(Errc::superseded, HasSubstr("save of /a: rank 0: a newer save")));
}

TEST_F(OperationTest, StopsWithPeerFailedForWhatTheSystemOfAnotherRankHasRefused) {
  const auto operation = make();
  operation->launch(may_end_.wait(), 0ns);

  operation->stop_because(
      std::make_exception_ptr(Error(std::error_code(ENOSPC, std::system_category()), "rank 3: write /a")));

  EXPECT_THAT([&] { operation->answered().get(); }, Fails(Errc::peer_failed, HasSubstr("rank 3: write /a")));
}

TEST_F(OperationTest, GoesOnWhenTheFailureIsItsOwnRanks) {
  const auto operation = make();
  operation->launch(may_end_.wait(), 0ns);

  operation->stop_because(std::make_exception_ptr(std::bad_alloc()));
  may_end_.set();

  EXPECT_NO_THROW(operation->answered().get());
}

}  // namespace
}  // namespace cairn::core
