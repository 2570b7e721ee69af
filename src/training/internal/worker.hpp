// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "async/internal/event.hpp"
#include "async/internal/thread_scope.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::training {

/// A thread that does one thing after the other. It is started with the first.
///
/// Threads: every method may be called from any thread.
class Worker {
 public:
  Worker() = default;
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

  /// Happens when all is done that was posted before. Who waits for it lends the thread (coord::wait_with_progress):
  /// what is to be done may be to wait for other ranks.
  [[nodiscard]] async::Event idle() const;

  /// Returns whether the calling thread is this one: it must not wait for itself.
  [[nodiscard]] bool runs_here() const noexcept { return async::ThreadScope::is_in(this); }

 private:
  void start_unless_running() CAIRN_REQUIRES(mutex_);
  void run();

  mutable Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> work_ CAIRN_GUARDED_BY(mutex_);
  async::Event idle_ CAIRN_GUARDED_BY(mutex_) =
      async::Event::happened();  // Another one from the next work on.
  bool is_ending_ CAIRN_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Begins under the mutex.
};

}  // namespace cairn::training
