// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "cairn/base/timeout.hpp"
#include "cairn/training/save_policy.hpp"

#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::training {

/// Measures what the saves of this process cost; the last ones count most.
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
  /// The same by what a policy goes by: the time that it was given, else the one that was estimated.
  [[nodiscard]] PeriodReport report(const SavePolicy& policy, std::chrono::nanoseconds estimated_mtbf) const;

 private:
  const Clock& clock_;
  const std::chrono::steady_clock::time_point begin_ = clock_.steady_now();
  mutable Mutex mutex_;
  PeriodCosts costs_ CAIRN_GUARDED_BY(mutex_);
  std::chrono::nanoseconds blocked_ CAIRN_GUARDED_BY(mutex_){0};
  bool has_blocked_ CAIRN_GUARDED_BY(mutex_) = false;
  bool has_ended_ CAIRN_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn::training
