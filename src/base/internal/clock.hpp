// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "base/internal/mutex.hpp"

namespace cairn {

/// Tells the time. Injected, so that tests decide what time it is.
///
/// Threads: every method may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  /// Time of day, for what people read.
  [[nodiscard]] virtual std::chrono::system_clock::time_point now() const = 0;
  /// Time that never goes back, for durations.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point steady_now() const = 0;

  /// Blocks the calling thread until `ready()` holds, or until it is `when` on the steady clock. Returns whether it
  /// holds. `lock` is held whenever `ready` is called; a thread that changes what it looks at notifies `condition`.
  ///
  /// As it is, it waits in real time for as long as `when` is ahead of `steady_now()`. A clock whose time tests decide
  /// overrides it, and wakes its waiters when it is set.
  virtual bool wait_until(MutexLock& lock, Condition& condition, std::chrono::steady_clock::time_point when,
                          const std::function<bool()>& ready) const;
};

/// `begin` and `duration` later; the last moment that can be told where that is beyond it: a duration of max() never
/// ends.
[[nodiscard]] std::chrono::steady_clock::time_point later(std::chrono::steady_clock::time_point begin,
                                                          std::chrono::nanoseconds duration);

/// The machine's own clocks.
const Clock& system_clock();

}  // namespace cairn
