// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cairn/async/awaitable.hpp"

#include "async/internal/task_group.hpp"

namespace cairn::testing {

/// Owns coroutines that run beside the one that spawned them.
///
/// Invariant: when join() or wait() returns, nothing that was spawned is still running.
/// Threads:   any thread may spawn and cancel; one coroutine joins.
class TaskScope {
 public:
  /// Tasks run on `executor`, which must run one thing at a time (a strand): cancellation relies on it. Its
  /// context must outlive the scope.
  explicit TaskScope(Executor executor);

  /// Terminates the program when tasks are still running: join first, as with `std::thread`.
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

  /// Starts a task. A failure is kept for join(); it does not stop the others.
  void spawn(Awaitable<> task);

  /// Asks every running task to stop. Those spawned later are asked at once.
  void cancel();

  /// Waits until every task has ended; rethrows the first failure that is no cancellation, else the first.
  ///
  /// Cancel: asks the tasks to stop, and waits for them all the same. In a coroutine that was cancelled
  ///         before, `co_await` throws first and nothing is joined: who cannot rule that out calls
  ///         `this_coro::throw_if_cancelled(false)` before it spawns.
  [[nodiscard]] Awaitable<> join();

  /// Blocks the calling thread until every task has ended. Not from a thread that the tasks need.
  /// Failures are kept for join().
  void wait();

 private:
  std::shared_ptr<async::TaskGroup> group_;
};

}  // namespace cairn::testing
