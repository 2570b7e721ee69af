// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/internal/clock.hpp"

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
    const std::lock_guard lock(mutex_);
    return now_;
  }

  void advance(std::chrono::nanoseconds duration) {
    const std::lock_guard lock(mutex_);
    now_ += duration;
  }

  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  std::chrono::steady_clock::time_point when,
                  const std::function<bool()>& ready) const override {
    while (!ready() && steady_now() < when) {
      condition.wait_for(lock, std::chrono::milliseconds(1));
    }
    return ready();
  }

 private:
  mutable std::mutex mutex_;  // Protects the time.
  std::chrono::steady_clock::time_point now_{std::chrono::hours(1)};
};

}  // namespace cairn::testing
