// SPDX-License-Identifier: Apache-2.0
#include "async/internal/event.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "async/internal/suspend.hpp"

namespace cairn::async {

struct Event::State {
  std::mutex mutex;
  std::condition_variable condition;
  bool has_happened = false;
  std::exception_ptr failure;
  std::vector<std::function<void(std::exception_ptr)>> callbacks;
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
    const std::lock_guard lock(state_->mutex);
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
  const std::lock_guard lock(state_->mutex);
  return state_->has_happened;
}

bool Event::wait_for(std::chrono::nanoseconds timeout, const Clock& clock) const {
  std::unique_lock lock(state_->mutex);
  const auto happened = [this] { return state_->has_happened; };
  return state_->has_happened ||
         clock.wait_until(lock, state_->condition, later(clock.steady_now(), timeout), happened);
}

void Event::get() const {
  std::unique_lock lock(state_->mutex);
  state_->condition.wait(lock, [this] { return state_->has_happened; });
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
    std::unique_lock lock(state->mutex);
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
  std::unique_lock lock(state_->mutex);
  if (!state_->has_happened) {
    state_->callbacks.push_back(std::move(callback));
    return;
  }
  const std::exception_ptr failure = state_->failure;
  lock.unlock();
  callback(failure);
}

}  // namespace cairn::async
