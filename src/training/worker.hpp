// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <thread>

#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::training {

/// A thread that does one thing after the other. It is started with the first.
///
/// Threads: every method may be called from any thread.
class Worker {
 public:
  explicit Worker(const Clock& clock) : clock_(clock) {}
  /// Does what is left to do.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Starts the thread already: then `post` needs nothing but memory.
  ///
  /// Errors: OS errors, when it cannot be started.
  void start();
  /// `work` must not throw.
  ///
  /// Errors: as `start`; then nothing is done.
  void post(std::function<void()> work);

  /// Blocks until all is done.
  void wait_idle();
  /// The same until `end` at most. Returns whether all is done.
  [[nodiscard]] bool wait_idle(std::chrono::steady_clock::time_point end);

 private:
  void start_unless_running() CAIRN_REQUIRES(mutex_);
  void run();
  [[nodiscard]] bool is_idle() const CAIRN_REQUIRES(mutex_) { return work_.empty() && !is_busy_; }

  const Clock& clock_;
  Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> work_ CAIRN_GUARDED_BY(mutex_);
  bool is_busy_ CAIRN_GUARDED_BY(mutex_) = false;
  bool is_ending_ CAIRN_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Begins under the mutex.
};

}  // namespace cairn::training
