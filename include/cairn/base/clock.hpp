// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

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
};

/// The machine's own clocks.
const Clock& system_clock();

}  // namespace cairn
