// SPDX-License-Identifier: Apache-2.0
#include "core/operation.hpp"

#include <functional>
#include <memory>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "cairn/async/suspend.hpp"
#include "cairn/async/sync_wait.hpp"
#include "cairn/async/when_all.hpp"

namespace cairn::core {
namespace {

/// How long work may go on after it was asked to stop, before its caller gets an answer without it.
constexpr std::chrono::seconds kStopGrace{2};

/// How often an operation that is given up looks whether the caller's memory is free. A copy takes less.
constexpr std::chrono::milliseconds kLookAgain{1};

}  // namespace

void BorrowedMemory::visit(const std::function<void()>& work) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) {
      throw Error(Errc::cancelled, "the caller's memory is the caller's again");
    }
    ++visitors_;
  }
  const auto leave = [this](void*) {
    const std::lock_guard lock(mutex_);
    --visitors_;
  };
  const std::unique_ptr<void, decltype(leave)> visitor(this, leave);
  work();
}

bool BorrowedMemory::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  return visitors_ == 0;
}

Operation::Operation(std::shared_ptr<Services> services, std::string title, Meter::TimePoint begin,
                     TraceSink trace)
    : services_(std::move(services)),
      title_(std::move(title)),
      meter_(std::make_shared<Meter>(services_->clock, begin, title_, std::move(trace))),
      engine_(std::make_shared<MeteredEngine>(*services_->engine, meter_)),
      strand_(async::make_strand(services_->coroutines.executor())),
      main_(std::make_shared<async::TaskGroup>(strand_)),
      helpers_(std::make_shared<async::TaskGroup>(strand_)),
      watch_(std::make_shared<async::TaskGroup>(strand_)) {}

void Operation::launch(Awaitable<> work, std::chrono::nanoseconds deadline) {
  services_->enter(shared_from_this());
  try {
    if (deadline > deadline.zero()) {
      watch_->spawn(stop_after(weak_from_this(), deadline));
    }
    main_->spawn(
        run_to_end(shared_from_this(), std::move(work)));  // Last: what throws here has started nothing.
  } catch (...) {
    watch_->cancel();
    services_->leave(this);
    throw;
  }
}

Awaitable<> Operation::run_to_end(std::shared_ptr<Operation> self, Awaitable<> work) {
  std::exception_ptr failure;
  try {
    co_await std::move(work);
  } catch (...) {
    failure = std::current_exception();
  }
  self->finish(std::move(failure));
}

Awaitable<> Operation::stop_after(std::weak_ptr<Operation> weak, std::chrono::nanoseconds deadline) {
  co_await async::sleep_for(deadline);
  if (const auto self = weak.lock()) {
    self->stop(Errc::timed_out,
               fmt::format("not done after {:.3f} s", std::chrono::duration<double>(deadline).count()));
  }
}

void Operation::stop(Errc reason, std::string why) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_ || done_.has_happened()) {
      return;
    }
    is_stopped_ = true;
    try {
      reason_.emplace(reason, fmt::format("{}: {}", title_, why));
    } catch (const std::bad_alloc&) {  // It stops all the same, and says only that it was cancelled.
    }
  }
  main_->cancel();
  try {
    watch_->spawn(give_up_after_grace(shared_from_this()));
  } catch (const std::bad_alloc&) {  // Then it ends when its work does, and not before.
  }
}

Awaitable<> Operation::give_up_after_grace(std::shared_ptr<Operation> self) {
  co_await async::sleep_for(kStopGrace);
  while (!self->borrowed_->close()) {
    co_await async::sleep_for(kLookAgain);
  }
  std::exception_ptr failure;
  {
    const std::lock_guard lock(self->mutex_);
    const Error reason = self->reason_.value_or(Error(Errc::cancelled, self->title_));
    failure = std::make_exception_ptr(Error(
        reason.code(), reason.detail() + "; a handler has not ended yet, what it made is left to recovery"));
  }
  self->finish(std::move(failure));
}

void Operation::finish(std::exception_ptr failure) noexcept {
  if (is_finished_.exchange(true)) {
    return;  // It was given up before, or is.
  }
  make_way();
  try {
    if (failure) {
      failure = explain(failure);
    }
    count_end(failure);
  } catch (...) {  // No memory for the words or the counts: the failure goes on as it is.
  }
  prepared_.complete(failure);
  done_.complete(failure);
  watch_->cancel();
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

Awaitable<> Operation::run(std::function<void()> work) const {
  return async::offload(threads(), std::move(work));
}

async::ThreadPool& Operation::threads() const noexcept {
  return services_->workers;
}

// outlives: who awaits keeps the operation.
Awaitable<staging::Buffer> Operation::acquire_buffer(const Operation& self) {
  staging::Buffer buffer = self.try_acquire_buffer();
  if (!buffer) {
    const Meter::TimePoint begin = self.meter_->now();
    buffer = co_await self.services_->buffers.acquire();
    self.meter_->waited_for_pool(self.meter_->now() - begin);
    self.meter_->saw_pool(self.services_->buffers.leased_bytes());
  }
  co_return buffer;
}

staging::Buffer Operation::try_acquire_buffer() const {
  staging::Buffer buffer = services_->buffers.try_acquire();
  if (buffer) {
    meter_->saw_pool(services_->buffers.leased_bytes());
  }
  return buffer;
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

std::string Operation::deliver_trace() const {
  try {
    meter_->deliver();
    return {};
  } catch (...) {
    return fmt::format("the trace is lost: {}", describe(std::current_exception()));
  }
}

Awaitable<> Operation::run_on_borrowed(std::function<void()> work) const {
  std::function<void()> visit = [memory = borrowed_, work = std::move(work)] { memory->visit(work); };
  return async::offload(services_->workers, std::move(visit));
}

Awaitable<> Operation::stop_helpers() const {
  helpers_->cancel();
  co_await async::TaskGroup::settle(helpers_);
}

}  // namespace cairn::core
