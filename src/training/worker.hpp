// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "cairn/base/timeout.hpp"

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

  /// `work` must not throw.
  ///
  /// Errors: OS errors, when no thread can be started; then nothing is done.
  void post(std::function<void()> work);

  /// Blocks until all is done.
  void wait_idle();
  /// The same for `timeout` at most. Returns whether all is done.
  [[nodiscard]] bool wait_idle(Timeout timeout);

 private:
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
