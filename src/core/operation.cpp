// SPDX-License-Identifier: Apache-2.0
#include "core/operation.hpp"

#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"

#include "async/internal/suspend.hpp"
#include "async/internal/thread_pool.hpp"
#include "core/drop_later.hpp"

namespace cairn::core {
namespace {

/// The operation whose blocking phase the calling thread runs, the innermost first.
class DrivenHere {
 public:
  explicit DrivenHere(const Services& services) noexcept : services_(&services), outer_(innermost) {
    innermost = this;
  }
  ~DrivenHere() { innermost = outer_; }
  DrivenHere(const DrivenHere&) = delete;
  DrivenHere& operator=(const DrivenHere&) = delete;

  static bool is_of(const Services& services) noexcept {
    for (const DrivenHere* driven = innermost; driven != nullptr; driven = driven->outer_) {
      if (driven->services_ == &services) {
        return true;
      }
    }
    return false;
  }

 private:
  static inline thread_local const DrivenHere* innermost = nullptr;

  const Services* services_;
  const DrivenHere* outer_;
};

Executor strand_for(const Services& services, BlockingPhase blocking) {
  return blocking == BlockingPhase::by_caller ? async::make_driven_strand(services.coroutines)
                                              : async::make_strand(services.coroutines.executor());
}

}  // namespace

bool is_busy_here(const Services& services) noexcept {
  return services.runs_this_thread() || DrivenHere::is_of(services);
}

void throw_waits_for_itself(std::string_view what) {
  throw Error(
      Errc::invalid_argument,
      fmt::format("{} that blocks was started on one of the context's own threads, or by a handler in its "
                  "blocking phase; it would wait for itself",
                  what));
}

void refuse_here(const Services& services, std::string_view what) {
  if (is_busy_here(services)) {
    throw_waits_for_itself(what);
  }
}

Operation::Operation(std::shared_ptr<Services> services, std::string title, observe::Meter::TimePoint begin,
                     TraceSink trace, Kind kind)
    : services_(std::move(services)),
      title_(std::move(title)),
      kind_(kind),
      meter_(std::make_shared<observe::Meter>(services_->clock, begin, title_, std::move(trace))),
      engine_(std::make_shared<observe::MeteredEngine>(*services_->engine, meter_)),
      calls_(services_->calls, services_->workers.size()),
      background_(services_->background, services_->workers.size()),
      strand_(strand_for(*services_, kind.blocking)),
      background_gate_(kind.memory == CallersMemory::until_done ? blocking_gate_ : async::Gate()),
      blocking_lane_(async::make_lane(strand_, blocking_gate_)),
      background_lane_(async::make_lane(strand_, background_gate_)),
      main_(std::make_shared<async::TaskGroup>(strand_)),
      helpers_(std::make_shared<async::TaskGroup>(strand_)),
      plane_(make_plane()) {}

std::unique_ptr<staging::DataPlane> Operation::make_plane() const {
  return std::unique_ptr<staging::DataPlane>(new staging::DataPlane{
      .engine = *engine_,
      .meter = *meter_,
      .workers = services_->workers,
      .calls = calls_,
      .behind = background_,
      .buffers = services_->buffers,
      .scratch = services_->scratch,
      .transfers = services_->transfers,
      .gathers = services_->gathers,
      .files = services_->files,
      .helpers = helpers_,
      .prepared = prepared_,
      .blocking_gate = blocking_gate_,
      .background_gate = background_gate_,
      .destroy_later = [services = services_](auto thing) { drop_later(services, std::move(thing)); },
  });
}

const async::Event& Operation::released() const noexcept {
  return kind_.memory == CallersMemory::unused ? nothing_used_ : blocking_gate_.left();
}

bool Operation::is_done() const {
  return done_.has_happened() || (answered_.has_happened() && !is_given_up_);
}

void Operation::launch(Awaitable<> work, std::chrono::nanoseconds deadline) {
  services_->enter(shared_from_this());
  try {
    if (deadline > deadline.zero()) {
      deadline_ = deadline;
      call_at(later(meter_->begin(), deadline), [](Operation& self) {
        self.stop(Errc::timed_out, fmt::format("not done after {:.3f} s",
                                               std::chrono::duration<double>(self.deadline_).count()));
      });
    }
    main_->spawn(
        run_to_end(shared_from_this(), std::move(work)));  // Last: what throws here has started nothing.
  } catch (...) {
    services_->leave(this);
    throw;
  }
}

void Operation::drive() noexcept {
  const DrivenHere here(*services_);
  async::drive(strand_);
}

void Operation::call_at(observe::Meter::TimePoint when, void (*call)(Operation&)) {
  // Not on the thread of the timers itself: what is told there may be heard by code of the program's.
  const auto id = services_->timers.at(when, [weak = weak_from_this(), call] {
    if (const auto self = weak.lock()) {
      self->services_->coroutines.submit([self, call] { call(*self); });
    }
  });
  const std::lock_guard lock(mutex_);
  timers_.push_back(id);
}

Awaitable<> Operation::run_to_end(std::shared_ptr<Operation> self, Awaitable<> work) {
  std::exception_ptr failure;
  try {
    co_await std::move(work);
  } catch (...) {
    failure = std::current_exception();
  }
  self->end(std::move(failure));
}

void Operation::stop(Errc reason, std::string why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_ || is_finished_) {
      return;
    }
    is_stopped_ = true;
    reason_.emplace(reason, fmt::format("{}: {}", title_, why));
  }
  refuse_effect();
  main_->cancel();
  call_at(later(services_->clock.steady_now(), services_->options.stop_grace),
          [](Operation& self) { self.give_up(); });
}

bool Operation::is_stopped() const {
  const std::lock_guard lock(mutex_);
  return is_stopped_;
}

void Operation::give_up() {
  if (is_finished_) {
    return;
  }
  is_given_up_ = true;
  finish(verdict_without_end(reason()));
}

Error Operation::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_.value_or(Error(Errc::cancelled, title_));
}

std::exception_ptr Operation::verdict_without_end(const Error& reason) {
  return std::make_exception_ptr(Error(reason.code(), reason.detail() + "; something of it still runs"));
}

void Operation::mark_prepared() {
  if (kind_.memory == CallersMemory::until_staged) {
    blocking_gate_.close();
  }
  prepared_.set();
  async::release_driver(strand_);
}

void Operation::give_memory_back() noexcept {
  blocking_gate_.close();
  background_gate_.close();
}

Awaitable<> Operation::leave_caller() {
  const Executor executor = co_await boost::asio::this_coro::executor;
  co_await boost::asio::post(executor, boost::asio::use_awaitable);
}

void Operation::finish(std::exception_ptr failure) noexcept {
  if (is_finished_.exchange(true)) {
    return;
  }
  make_way();
  if (failure) {
    failure = explain(failure);
  }
  count_end(failure);
  decided_.set();
  give_memory_back();
  const bool is_callers_turn = kind_.blocking == BlockingPhase::by_caller && !prepared_.has_happened();
  if (kind_.memory == CallersMemory::until_done || is_callers_turn) {
    released().on_complete(
        [self = shared_from_this(), failure](const std::exception_ptr&) { self->tell(failure); });
    return;
  }
  tell(failure);
}

void Operation::tell(const std::exception_ptr& failure) noexcept {
  prepared_.complete(failure);
  answered_.complete(failure);
  told_.set();
  async::release_driver(strand_);
}

void Operation::end(std::exception_ptr failure) noexcept {
  finish(std::move(failure));
  clear_up();
  std::vector<async::Timers::Id> timers;
  {
    const std::lock_guard lock(mutex_);
    timers.swap(timers_);
  }
  for (const async::Timers::Id id : timers) {
    services_->timers.forget(id);
  }
  done_.set();
  services_->leave(this);
}

std::exception_ptr Operation::explain(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!async::is_cancelled(failure)) {
    return failure;
  }
  if (reason_) {
    return std::make_exception_ptr(*reason_);
  }
  return std::make_exception_ptr(Error(Errc::cancelled, title_));
}

Awaitable<> Operation::run_call(std::function<void()> work) const {
  return async::offload(calls_, std::move(work));
}

Awaitable<> Operation::run_users(std::function<void()> work) const {
  const bool gives_way = plane_->gives_way && prepared_.has_happened();
  return async::offload(gives_way ? background_ : calls_, std::move(work));
}

void Operation::fill_numbers(Report& report) const {
  meter_->fill_numbers(report);
  report.transfers = engine_->figures();
  report.pool.capacity_bytes = services_->buffers.capacity_bytes();
}

void Operation::fill_words(Report& report) const {
  meter_->fill_words(report);
  report.engine = services_->engine->name();
  if (*services_->has_unpinned) {
    report.fallbacks.emplace_back(
        "a device could not pin staging memory; copies to and from it take a detour");
  }
  if (std::string trouble = services_->engine->trouble(); !trouble.empty()) {
    report.fallbacks.insert(report.fallbacks.begin(), std::move(trouble));
  }
  if (!services_->choice.reason.empty()) {
    report.fallbacks.insert(report.fallbacks.begin(), services_->choice.reason + "; threads read and write");
  }
}

std::string Operation::deliver_trace() const noexcept {
  try {
    meter_->deliver();
    return {};
  } catch (...) {
    return fmt::format("the trace is lost: {}", describe(std::current_exception()));
  }
}

Awaitable<> Operation::stop_helpers() const {
  helpers_->cancel();
  co_await async::TaskGroup::settle(helpers_);
}

}  // namespace cairn::core
