// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace cairn::testing {

/// Tells how late a thread wakes up that sleeps for 5 ms at a time: a machine that is busy or slow wakes it later, and
/// how long a call has taken there says nothing without that.
///
/// Threads: every method may be called from any thread.
class LightSleeper {
 public:
  using Milliseconds = std::chrono::milliseconds;

  LightSleeper() : thread_([this] { sleep(); }) {}
  ~LightSleeper() {
    is_over_ = true;
    thread_.join();
  }
  LightSleeper(const LightSleeper&) = delete;
  LightSleeper& operator=(const LightSleeper&) = delete;

  /// The latest that it has woken up since this was asked last.
  [[nodiscard]] Milliseconds take_late() { return late_.exchange(Milliseconds(0)); }

 private:
  void sleep() {
    while (!is_over_) {
      const auto wanted = std::chrono::steady_clock::now() + Milliseconds(5);
      std::this_thread::sleep_until(wanted);
      const auto late = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - wanted);
      for (Milliseconds most = late_; late > most && !late_.compare_exchange_weak(most, late);) {
      }
    }
  }

  std::atomic<bool> is_over_{false};
  std::atomic<Milliseconds> late_{Milliseconds(0)};
  std::thread thread_;
};

}  // namespace cairn::testing
