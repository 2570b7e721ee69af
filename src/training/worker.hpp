// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/internal/clock.hpp"

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
  void start_unless_running();
  void run();
  [[nodiscard]] bool is_idle() const { return work_.empty() && !is_busy_; }

  const Clock& clock_;
  std::mutex mutex_;  // Protects all below.
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool is_busy_ = false;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace cairn::training
