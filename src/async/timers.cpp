// SPDX-License-Identifier: Apache-2.0
#include "async/internal/timers.hpp"

#include <algorithm>
#include <utility>

#include "base/internal/thread.hpp"

namespace cairn::async {

Timers::Timers(const Clock& clock) : clock_(clock), thread_(start_thread("cairn-timer", [this] { run(); })) {}

Timers::~Timers() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Timers::Id Timers::at(TimePoint when, std::function<void()> call) {
  Id id = 0;
  {
    const MutexLock lock(mutex_);
    id = ++last_id_;
    calls_.emplace(Key(when, id), std::move(call));
  }
  changed_.notify_all();
  return id;
}

bool Timers::runs_this_thread() const noexcept {
  return thread_.get_id() == std::this_thread::get_id();
}

void Timers::forget(Id id) {
  std::function<void()> dropped;  // Destroyed without the lock: what it holds may call back.
  const MutexLock lock(mutex_);
  const auto found = std::find_if(calls_.begin(), calls_.end(),
                                  [id](const auto& entry) { return entry.first.second == id; });
  if (found != calls_.end()) {
    dropped = std::move(found->second);
    calls_.erase(found);
  }
}

void Timers::run() {
  MutexLock lock(mutex_);
  while (!is_stopping_) {
    if (calls_.empty()) {
      changed_.wait(lock, [this]() CAIRN_REQUIRES(mutex_) { return is_stopping_ || !calls_.empty(); });
      continue;
    }
    const TimePoint next = calls_.begin()->first.first;
    const auto is_overtaken = [this, next]() CAIRN_REQUIRES(mutex_) {
      return is_stopping_ || calls_.empty() || calls_.begin()->first.first != next;
    };
    if (clock_.wait_until(lock, changed_, next, is_overtaken)) {
      continue;
    }
    std::function<void()> call = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
    lock.unlock();
    call();
    call = nullptr;  // What it holds may come back here when it goes.
    lock.lock();
  }
}

}  // namespace cairn::async
