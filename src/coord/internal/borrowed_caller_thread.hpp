// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "cairn/coord/coordinator.hpp"

#include "async/internal/event.hpp"
#include "base/internal/clock.hpp"

namespace cairn::coord {

/// The calling thread while a call of this library waits on it: a coordinator whose transport has no thread of its
/// own is lent it meanwhile. Threads that this library has started are never lent: the program does not know when
/// they would call MPI.
///
/// Threads: none of its methods at the same time as another.
class BorrowedCallerThread {
 public:
  explicit BorrowedCallerThread(Coordinator& coordinator) noexcept;
  /// Makes progress once more: what was said last leaves, and that this rank is silent from here on.
  ~BorrowedCallerThread();
  BorrowedCallerThread(const BorrowedCallerThread&) = delete;
  BorrowedCallerThread& operator=(const BorrowedCallerThread&) = delete;

  /// Returns whether `progress` does anything.
  [[nodiscard]] bool is_wanted() const noexcept { return is_wanted_; }

  /// Blocks the thread until `event` has happened, for `timeout` of `clock` at most. Returns whether it has happened.
  [[nodiscard]] bool wait(const async::Event& event, std::chrono::nanoseconds timeout, const Clock& clock);

  /// Says whether code that knows nothing of this may keep the thread between two calls of `progress`, for as
  /// long as it likes. Each call then ends by saying that this rank may be silent, as Coordinator::progress
  /// does.
  void set_resting(bool is_resting) noexcept { is_resting_ = is_resting; }

  /// Returns how long the thread may wait before it calls this again: longer and longer, from 0.1 ms to 1 ms, until
  /// it `has_worked`.
  std::chrono::nanoseconds progress(bool has_worked) noexcept;

 private:
  void lend() noexcept;

  Coordinator& coordinator_;
  bool is_wanted_ = false;
  bool is_resting_ = false;
  std::chrono::nanoseconds pause_;
};

/// Says to the other ranks that this one may be silent until it speaks again: before code that may keep the calling
/// thread for as long as it likes. Nothing where the coordinator wants no thread.
void rest(Coordinator& coordinator) noexcept;

/// Blocks the calling thread, which is lent meanwhile, until `event` has happened; does not throw its failure.
///
/// This, with BorrowedCallerThread, is how the library blocks a thread of the program: a wait that lends nothing may
/// wait for ever, for what other ranks say to this one. `lint.waits` finds others.
void wait_with_progress(Coordinator& coordinator, const async::Event& event);
/// The same; rethrows its failure.
void get_with_progress(Coordinator& coordinator, const async::Event& event);

/// The same for `timeout` of `clock` at most. Returns whether it has happened.
[[nodiscard]] bool wait_with_progress(Coordinator& coordinator, const async::Event& event,
                                      std::chrono::nanoseconds timeout, const Clock& clock);
/// The same until it is `end` at most.
[[nodiscard]] bool wait_with_progress_until(Coordinator& coordinator, const async::Event& event,
                                            std::chrono::steady_clock::time_point end, const Clock& clock);

}  // namespace cairn::coord
