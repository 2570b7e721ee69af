// SPDX-License-Identifier: Apache-2.0
#include "core/operation.hpp"

#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"

#include "async/internal/thread_pool.hpp"
#include "async/internal/thread_scope.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "base/internal/require_timeout.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"
#include "core/drop_later.hpp"
#include "core/internal/busy_here.hpp"

namespace cairn::core {
namespace {

Executor strand_for(const Services& services, BlockingPhase blocking) {
  return blocking == BlockingPhase::by_caller ? async::make_driven_strand(services.threads.coroutines)
                                              : async::make_strand(services.threads.coroutines.executor());
}

}  // namespace

Operation::Operation(std::shared_ptr<Services> services, std::string title, observe::Meter::TimePoint begin,
                     TraceSink trace, Kind kind)
    : services_(std::move(services)),
      title_(std::move(title)),
      blocking_(kind.blocking),
      stats_(*services_, title_, begin, std::move(trace)),
      strand_(strand_for(*services_, kind.blocking)),
      data_strand_(async::make_companion_strand(strand_)),
      caller_memory_(kind.memory),
      blocking_lane_(async::make_lane(strand_, caller_memory_.blocking_gate())),
      background_lane_(async::make_lane(strand_, caller_memory_.background_gate())),
      main_(std::make_shared<async::TaskGroup>(strand_)),
      helpers_(std::make_shared<async::TaskGroup>(data_strand_)),
      lifecycle_(title_),
      deadlines_(services_->threads.timers, services_->threads.coroutines),
      plane_(make_plane()) {}

staging::DataPlane Operation::make_plane() const {
  Threads& threads = services_->threads;
  Disk& disk = services_->disk;
  return {
      .engine = engine(),
      .meter = meter(),
      .workers = async::LimitedPool(threads.workers, threads.workers.size()),
      .calls = async::LimitedPool(threads.calls, threads.workers.size()),
      .background = async::LimitedPool(threads.background, threads.workers.size()),
      .users = async::LimitedPool(threads.calls, threads.workers.size()),
      .users_background = async::LimitedPool(threads.background, threads.workers.size()),
      .buffers = services_->memory.buffers.fair_share(),
      .scratch = services_->memory.scratch.fair_share(),
      .transfers = async::Semaphore(disk.queue_depth),
      .gathers = async::Semaphore(disk.queue_depth),
      .files = disk.files.fair_share(),
      .strand = data_strand_,
      .helpers = helpers_,
      .pin = services_->devices.pin_for_all(),
      .prepared = prepared(),
      .blocking_gate = caller_memory_.blocking_gate(),
      .background_gate = caller_memory_.background_gate(),
      .destroy_later = [services = services_](auto thing) { drop_later(services, std::move(thing)); },
  };
}

const async::Event& Operation::released() const noexcept {
  return caller_memory_.released();
}

bool Operation::runs_here() const noexcept {
  return async::runs_this_thread(strand_) || async::runs_this_thread(data_strand_) ||
         plane_.runs_this_thread() || async::ThreadScope::is_in(this);
}

void Operation::launch(Awaitable<> work, std::chrono::nanoseconds deadline) {
  CAIRN_ASSERT(!done().has_happened(),
               "an operation is launched before it is done");  // It may be given up before.
  require_not_negative(deadline, fmt::format("{}: the deadline", title_));
  services_->operations.enter(shared_from_this());  // First: `close` must find all that runs, or refuse it.
  try {
    if (deadline > deadline.zero()) {
      // Weak: a timer does not keep an operation, and its staging memory, until the deadline.
      deadlines_.at(later(meter().begin(), deadline), [weak = weak_from_this(), deadline] {
        if (const auto self = weak.lock()) {
          const SomeRanks missing = self->missing_ranks();
          self->stop(Errc::timed_out, fmt::format("not done after {:.3f} s{}{}",
                                                  std::chrono::duration<double>(deadline).count(),
                                                  missing.count == 0 ? "" : "; still waiting for ",
                                                  missing.count == 0 ? "" : to_string(missing)));
        }
      });
    }
    main_->spawn(
        run_to_end(shared_from_this(), std::move(work)));  // Last: what throws here has started nothing.
  } catch (...) {
    CAIRN_PROBE("core.operation_not_launched");
    services_->operations.leave(this);
    throw;
  }
}

std::string Operation::waits_for() const {
  const SomeRanks missing = missing_ranks();
  return missing.count == 0 ? "the disk, a handler or an earlier operation" : to_string(missing);
}

void Operation::drive() noexcept {
  CAIRN_ASSERT(blocking_ == BlockingPhase::by_caller, "only a caller that runs the blocking phase drives it");
  const DrivenHere here(*services_);
  coord::BorrowedCallerThread thread(services_->coordinator);
  if (!thread.is_wanted()) {
    async::drive(strand_);
    return;
  }
  async::drive(strand_, [this, &thread](bool has_worked) {
    thread.set_resting(is_callers_thread_busy_);
    return thread.progress(has_worked);
  });
}

void Operation::set_callers_thread_busy(bool is_busy) noexcept {
  is_callers_thread_busy_ = is_busy;
  if (is_busy && blocking_ == BlockingPhase::by_caller) {
    coord::rest(services_->coordinator);
  }
}

// Static, with the operation as a parameter: `work` uses it, and all responses may have been dropped.
Awaitable<> Operation::run_to_end(std::shared_ptr<Operation> self, Awaitable<> work) {
  std::exception_ptr failure;
  try {
    co_await std::move(work);
  } catch (...) {
    failure = std::current_exception();
  }
  self->end(failure);
}

void Operation::stop(Errc reason, std::string_view why) noexcept {
  if (!lifecycle_.stop(reason, why)) {
    return;
  }
  CAIRN_PROBE("core.stopped");
  refuse_effect();  // First: what ends because of the cancellation must not be published.
  main_->cancel();
  const std::chrono::nanoseconds grace = services_->options.stop_grace;
  deadlines_.at(later(services_->clock.steady_now(), grace), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->give_up();
    }
  });
}

void Operation::stop_because(const std::exception_ptr& elsewhere) noexcept {
  try {
    std::rethrow_exception(elsewhere);
  } catch (const Error& error) {
    const bool is_own = error.code().category() == cairn_category();
    stop(is_own ? static_cast<Errc>(error.code().value()) : Errc::peer_failed, error.detail());
  } catch (...) {  // Of this rank itself: its work says so.
  }
}

void Operation::give_up() noexcept {
  if (!lifecycle_.give_up()) {
    return;
  }
  CAIRN_PROBE("core.given_up");
  finish(verdict_without_end(lifecycle_.reason()));
}

std::exception_ptr Operation::verdict_without_end(const Error& reason) {
  return std::make_exception_ptr(Error(reason.code(), reason.detail() + "; something of it still runs"));
}

void Operation::mark_prepared() {
  caller_memory_.end_blocking_phase();  // First: after `prepared` the caller may change the values.
  prepared().set();
  CAIRN_ASSERT(!answered().has_happened() || lifecycle_.is_ending(),
               "an operation that was answered is ending");
  async::release_driver(strand_);  // Last: a caller that comes back from `drive` must find it prepared.
}

Awaitable<> Operation::leave_caller() {
  const Executor executor = co_await boost::asio::this_coro::executor;
  co_await boost::asio::post(executor, boost::asio::use_awaitable);
}

Awaitable<> Operation::run_phase(Executor lane, std::vector<Awaitable<>> tasks) {
  const std::vector<std::exception_ptr> failures = co_await async::settle_all_on(lane, std::move(tasks));
  if (auto failure = combine(failures)) {
    std::rethrow_exception(failure);
  }
}

void Operation::finish(const std::exception_ptr& failure) noexcept {
  // All of this before the answer: a program that has heard it may start the next save, which must find a place, and
  // may read the metrics, which must count this one.
  CAIRN_ASSERT(!decided().has_happened() && !answered().has_happened(), "an operation ends once");
  make_way();
  count_end(failure);
  // Before the memory: the answer is certain now, but may have to wait until a stuck system call has left the memory.
  // `close` waits for this one, and so does not wait for the disk.
  decided().set();
  caller_memory_.give_back();
  // A caller that has lent its memory, or that runs the blocking phase, is told nothing before the memory is free.
  const bool is_callers_turn = blocking_ == BlockingPhase::by_caller && !prepared().has_happened();
  if (caller_memory_.is_to_the_end() || is_callers_turn) {
    released().on_complete(
        [self = shared_from_this(), failure](const std::exception_ptr&) { self->tell(failure); });
    CAIRN_PROBE("core.answer_waits_for_the_callers_memory");
    return;
  }
  tell(failure);
}

void Operation::tell(const std::exception_ptr& failure) const noexcept {
  CAIRN_ASSERT(decided().has_happened() && !answered().has_happened(),
               "an answer is told once, and after it was decided");
  const async::ThreadScope telling(
      this);  // Who hears it may end the program, which waits for what is not told.
  lifecycle_.answer(failure);
  async::release_driver(strand_);  // The caller still drives it when the blocking phase failed.
}

void Operation::end(const std::exception_ptr& failure) noexcept {
  if (lifecycle_.end()) {  // Else it was given up, and is answered so.
    finish(lifecycle_.explain(failure));
  }
  clear_up();  // Before `done`: who waits for that may count on nothing being left.
  CAIRN_ASSERT(lifecycle_.is_ending(), "an operation that is cleared up is ending");
  CAIRN_ASSERT(!done().has_happened(), "an operation is done once");
  deadlines_.forget();
  done().set();
  services_->operations.leave(this);  // Last: until here `close` finds it among those that still run.
}

Awaitable<> Operation::run_call(std::function<void()> work) const {
  return plane_.run_call(std::move(work));
}

// Waits for them in any case: they use the directory and the buffers of the operation.
Awaitable<> Operation::stop_helpers() const {
  helpers_->cancel();
  co_await async::TaskGroup::settle(helpers_);
}

}  // namespace cairn::core
