// SPDX-License-Identifier: Apache-2.0
#include "async/internal/event.hpp"

#include <utility>
#include <vector>

#include "async/internal/suspend.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::async {

struct Event::State {
  Mutex mutex;
  Condition condition;
  bool has_happened CAIRN_GUARDED_BY(mutex) = false;
  std::exception_ptr failure CAIRN_GUARDED_BY(mutex);
  std::vector<std::function<void(std::exception_ptr)>> callbacks CAIRN_GUARDED_BY(mutex);
};

Event::Event() : state_(std::make_shared<State>()) {}

Event Event::happened() {
  Event event;
  event.set();
  return event;
}

bool Event::complete(std::exception_ptr failure) const noexcept {
  std::vector<std::function<void(std::exception_ptr)>> callbacks;
  {
    const MutexLock lock(state_->mutex);
    if (state_->has_happened) {
      return false;
    }
    state_->has_happened = true;
    state_->failure = failure;
    callbacks.swap(state_->callbacks);
    state_->condition.notify_all();
  }
  for (const auto& callback : callbacks) {
    callback(failure);
  }
  return true;
}

bool Event::has_happened() const {
  const MutexLock lock(state_->mutex);
  return state_->has_happened;
}

bool Event::wait_for(std::chrono::nanoseconds timeout, const Clock& clock) const {
  MutexLock lock(state_->mutex);
  const auto happened = [this]() CAIRN_REQUIRES(state_->mutex) { return state_->has_happened; };
  return state_->has_happened ||
         clock.wait_until(lock, state_->condition, later(clock.steady_now(), timeout), happened);
}

void Event::get() const {
  MutexLock lock(state_->mutex);
  state_->condition.wait(lock, [this]() CAIRN_REQUIRES(state_->mutex) { return state_->has_happened; });
  if (state_->failure) {
    std::rethrow_exception(state_->failure);
  }
}

Awaitable<> Event::wait() const {
  return wait_on(state_);
}

Awaitable<> Event::wait_on(std::shared_ptr<State> state) {
  // The coroutine keeps no reference: an event that everybody else has dropped takes its waiters along.
  Start start = [state = std::move(state)](const Resume& resume) {
    MutexLock lock(state->mutex);
    if (state->has_happened) {
      std::exception_ptr failure = state->failure;
      lock.unlock();
      resume(std::move(failure));
      return;
    }
    state->callbacks.emplace_back([resume](std::exception_ptr failure) { resume(failure); });
  };
  OnCancel stop_waiting = [](const Resume& resume) { resume(cancelled()); };
  co_await suspend(std::move(start), std::move(stop_waiting));
}

void Event::on_complete(std::function<void(std::exception_ptr)> callback) const {
  MutexLock lock(state_->mutex);
  if (!state_->has_happened) {
    state_->callbacks.push_back(std::move(callback));
    return;
  }
  const std::exception_ptr failure = state_->failure;
  lock.unlock();
  callback(failure);
}

}  // namespace cairn::async
