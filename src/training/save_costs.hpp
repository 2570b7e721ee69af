// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <mutex>

#include "cairn/base/timeout.hpp"
#include "cairn/training/period.hpp"

#include "base/internal/clock.hpp"

namespace cairn::training {

/// What the saves of this process cost: the last ones count most.
///
/// Threads: every method may be called from any thread.
class SaveCosts {
 public:
  explicit SaveCosts(const Clock& clock) : clock_(clock) {}

  /// A save has stopped the program for so long.
  void add_blocking(std::chrono::nanoseconds time);
  /// It was committed so long after it was called.
  void add_durable(std::chrono::nanoseconds time);

  [[nodiscard]] PeriodCosts costs() const;
  [[nodiscard]] PeriodReport report(Timeout mtbf, Timeout restart) const;

 private:
  const Clock& clock_;
  const std::chrono::steady_clock::time_point begin_ = clock_.steady_now();
  mutable std::mutex mutex_;  // Protects what follows.
  PeriodCosts costs_;
  std::chrono::nanoseconds blocked_{0};
  bool has_blocked_ = false;
  bool has_ended_ = false;
};

}  // namespace cairn::training
