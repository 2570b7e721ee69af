// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/response.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "async/internal/suspend.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"
#include "core/internal/busy_here.hpp"
#include "core/internal/settle.hpp"
#include "core/response.hpp"

namespace cairn::core {
namespace {

/// Errors: Errc::invalid_argument when the calling thread must not wait for what `event` says of the operation,
///         unless there is nothing to wait for.
void require_may_wait(const Operation& operation, const async::Event& event) {
  if (!event.has_happened() && is_busy_here(operation.services())) {
    throw Error(Errc::invalid_argument, fmt::format("{}: would deadlock: waited for on one of the context's "
                                                    "threads, or in a handler's blocking phase; "
                                                    "use co_await",
                                                    operation.title()));
  }
}

/// Blocks, and rethrows what the event says. The thread carries the coordinator's packets meanwhile, where that needs
/// it.
void wait_until(const Operation& operation, const async::Event& event) {
  coord::get_with_progress(operation.services().coordinator, event);
}

/// Errors: Errc::still_running when it has not happened within `timeout`.
void wait_within(const Operation& operation, const async::Event& event, Timeout timeout) {
  if (!coord::wait_with_progress(operation.services().coordinator, event, timeout,
                                 operation.services().clock)) {
    throw Error(Errc::still_running,
                fmt::format("{} is still running after {:.3f} s; it waits for {}", operation.title(),
                            std::chrono::duration<double>(timeout).count(), operation.waits_for()));
  }
}

Awaitable<> await_event(std::shared_ptr<Operation> operation, async::Event event) {
  co_await event.wait();
  static_cast<void>(operation);
}

/// Stops an operation that has not released the caller's memory, and blocks until it has; not on a thread that runs
/// it, which would wait for itself.
void take_memory_back(Operation& operation) noexcept {
  if (!operation.released().has_happened()) {
    operation.stop(Errc::cancelled, "its response was dropped before the caller's memory was free");
    if (!operation.runs_here()) {
      wait_until(operation, operation.released());
    }
  }
}

}  // namespace

Awaitable<> nothing() {
  co_return;
}

Awaitable<> wait_or_stop(std::shared_ptr<Operation> operation, async::Event event) {
  async::Start start = [event](const async::Resume& resume) {
    event.on_complete([resume](const std::exception_ptr& failure) { resume(failure); });
  };
  async::OnCancel on_cancel = [operation = operation.get()](const async::Resume& resume) {
    if (!operation->released().has_happened()) {
      operation->is_observed = true;
      operation->stop(Errc::cancelled, "its awaiting was cancelled");
    }
    operation->released().on_complete([resume](const std::exception_ptr&) { resume(async::cancelled()); });
  };
  co_await async::suspend(std::move(start), std::move(on_cancel));
}

Response::~Response() {
  let_go();
}

Response& Response::operator=(Response&& other) noexcept {
  if (this != &other) {
    let_go();
    operation_ = std::move(other.operation_);
  }
  return *this;
}

void Response::let_go() noexcept {
  if (operation_ && operation_->services().is_own_process()) {
    take_memory_back(*operation_);
    operation_->let_go();
  }
}

void settle(const Response& response) {
  const std::shared_ptr<Operation>& operation = response.operation_;
  if (!operation) {
    return;
  }
  require_may_wait(*operation, operation->answered());
  try {
    wait_until(*operation, operation->answered());
  } catch (...) {
    operation->is_observed = true;
    throw;
  }
}

void Response::wait_answered() const {
  if (operation_) {
    require_may_wait(*operation_, operation_->answered());
    operation_->is_observed = true;
    wait_until(*operation_, operation_->answered());
  }
}

void Response::wait_answered(Timeout timeout) const {
  if (!operation_) {
    return;
  }
  require_may_wait(*operation_, operation_->answered());
  wait_within(*operation_, operation_->answered(), timeout);
}

void Response::wait_prepared() const {
  if (!operation_) {
    return;
  }
  require_may_wait(*operation_, operation_->prepared());
  try {
    wait_until(*operation_, operation_->prepared());
  } catch (...) {
    operation_->is_observed = true;
    throw;
  }
}

void Response::wait_prepared(Timeout timeout) const {
  if (!operation_) {
    return;
  }
  require_may_wait(*operation_, operation_->prepared());
  wait_within(*operation_, operation_->prepared(), timeout);
  wait_prepared();
}

void Response::wait_released() const {
  if (operation_) {
    require_may_wait(*operation_, operation_->released());
    wait_until(*operation_, operation_->released());
  }
}

void Response::wait_done() const {
  if (operation_) {
    require_may_wait(*operation_, operation_->done());
    wait_until(*operation_, operation_->done());
  }
}

Awaitable<> Response::released() const {
  return operation_ ? await_event(operation_, operation_->released()) : nothing();
}

Awaitable<> Response::done() const {
  return operation_ ? await_event(operation_, operation_->done()) : nothing();
}

bool Response::is_released() const {
  return !operation_ || operation_->released().has_happened();
}

bool Response::is_done() const {
  return !operation_ || operation_->is_done();
}

void Response::cancel() const {
  if (operation_) {
    operation_->is_observed = true;
    operation_->stop(Errc::cancelled, "cancelled by the caller");
  }
}

}  // namespace cairn::core
