// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::testing {

/// A clock that stands still until a test sets it forward.
///
/// Whoever waits for a time looks again every millisecond of real time: a waiter's lock and condition are its own, so
/// that nobody else could wake it without a race.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::system_clock::time_point now() const override {
    return std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(steady_now().time_since_epoch()));
  }

  [[nodiscard]] std::chrono::steady_clock::time_point steady_now() const override {
    const MutexLock lock(mutex_);
    return now_;
  }

  void advance(std::chrono::nanoseconds duration) {
    const MutexLock lock(mutex_);
    now_ += duration;
  }

  bool wait_until(MutexLock& lock, Condition& condition, std::chrono::steady_clock::time_point when,
                  const std::function<bool()>& ready) const override {
    while (!ready() && steady_now() < when) {
      condition.wait_for(lock, std::chrono::milliseconds(1));
    }
    return ready();
  }

 private:
  mutable Mutex mutex_;
  std::chrono::steady_clock::time_point now_ CAIRN_GUARDED_BY(mutex_){std::chrono::hours(1)};
};

}  // namespace cairn::testing
