// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::async {

/// Calls functions at their time, on a thread of its own: one that no handler and no system call keeps busy.
///
/// Threads: every method may be called from any thread; the destructor not from a function that is called.
class Timers {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Id = std::uint64_t;

  /// `clock` must outlive it.
  explicit Timers(const Clock& clock);

  /// Waits for the function that is being called; those whose time has not come are dropped.
  ~Timers();
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  /// Calls `call` once it is `when` on the clock. It must be brief, and must not throw.
  Id at(TimePoint when, std::function<void()> call);

  /// Returns whether the calling thread is the one that calls.
  [[nodiscard]] bool runs_this_thread() const noexcept;

  /// Drops a function that has not been called yet.
  void forget(Id id);

 private:
  using Key = std::pair<TimePoint, Id>;

  void run();

  const Clock& clock_;
  Mutex mutex_;
  Condition changed_;
  std::map<Key, std::function<void()>> calls_ CAIRN_GUARDED_BY(mutex_);
  Id last_id_ CAIRN_GUARDED_BY(mutex_) = 0;
  bool is_stopping_ CAIRN_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace cairn::async
