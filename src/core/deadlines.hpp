// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "async/internal/thread_pool.hpp"
#include "async/internal/timers.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::core {

/// Makes the calls that an operation wants at certain times, unless it has ended by then.
///
/// The pool makes these calls, not the thread of the timers: they may run code of the program's.
/// Threads: every method may be called from any thread. Timers and pool outlive it.
class Deadlines {
 public:
  Deadlines(async::Timers& timers, async::ThreadPool& pool) : timers_(timers), pool_(pool) {}
  ~Deadlines() { forget(); }
  Deadlines(const Deadlines&) = delete;
  Deadlines& operator=(const Deadlines&) = delete;

  /// Calls `call` on the pool once it is `when`. It must not throw, and may still come after `forget`.
  void at(async::Timers::TimePoint when, std::function<void()> call);

  /// Drops all calls whose time has not come.
  void forget();

 private:
  async::Timers& timers_;
  async::ThreadPool& pool_;
  Mutex mutex_;
  std::vector<async::Timers::Id> ids_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::core
