// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include <boost/asio/cancellation_signal.hpp>

#include "cairn/async/awaitable.hpp"

#include "async/internal/suspend.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::async {

/// Coroutines that run concurrently, owned together. Shared: it lives until the last of them has ended.
///
/// A group may be abandoned: tasks that never end are
/// then destroyed with their executor.
/// Threads: any thread may spawn, cancel and wait; one coroutine at a time settles.
class TaskGroup : public std::enable_shared_from_this<TaskGroup> {
 public:
  /// Tasks run on `executor`, which must run one thing at a time (a strand): cancellation relies on it. Its
  /// context must outlive the group.
  explicit TaskGroup(Executor executor) : executor_(std::move(executor)) {}

  /// Starts a task. A failure is kept for settle(); it does not stop the others. A task that is destroyed
  /// with its executor's context has failed with Errc::closed.
  void spawn(Awaitable<> task);

  /// Asks every running task to stop. Those spawned later are asked at once.
  void cancel();

  /// Blocks the calling thread until every task has ended. Not from a thread that the tasks need.
  void wait();
  [[nodiscard]] bool is_running();

  /// Waits until every task has ended; returns the failures in the order in which they happened.
  ///
  /// Tasks may use what belongs to the caller of `settle`: when it cannot wait for them, for want of memory, the
  /// process ends.
  /// Cancel: asks the tasks to stop, and waits for them all the same.
  static Awaitable<std::vector<std::exception_ptr>> settle(std::shared_ptr<TaskGroup> group) noexcept;

 private:
  class Task;

  void launch(Awaitable<> task, const std::shared_ptr<Task>& entry);
  void end(Task& entry, std::exception_ptr failure) noexcept;
  void raise_signals();
  void resume_when_settled(const Resume& resume);

  Executor executor_;
  Mutex mutex_;
  Condition condition_;
  bool is_cancelled_ CAIRN_GUARDED_BY(mutex_) = false;
  bool is_raise_posted_ CAIRN_GUARDED_BY(mutex_) = false;
  std::size_t running_ CAIRN_GUARDED_BY(mutex_) = 0;
  // One for each launched task.
  std::list<boost::asio::cancellation_signal> signals_ CAIRN_GUARDED_BY(mutex_);
  std::vector<std::exception_ptr> failures_ CAIRN_GUARDED_BY(mutex_);
  std::optional<Resume> waiting_ CAIRN_GUARDED_BY(mutex_);  // Who settles.
};

}  // namespace cairn::async
