// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include <boost/asio/cancellation_signal.hpp>

#include "cairn/async/awaitable.hpp"

namespace cairn::async {

/// The running tasks of one scope. Shared by the tasks themselves, so that it outlives the last of them.
class TaskGroup : public std::enable_shared_from_this<TaskGroup> {
 public:
  explicit TaskGroup(Executor executor) : executor_(std::move(executor)) {}

  void spawn(Awaitable<> task);
  void cancel();
  void wait();
  [[nodiscard]] bool is_running();

  /// Waits until every task has ended. Cancelling the waiter cancels the tasks.
  static Awaitable<std::vector<std::exception_ptr>> settle(std::shared_ptr<TaskGroup> group);

 private:
  using Signals = std::list<boost::asio::cancellation_signal>;

  void end(Signals::iterator signal, std::exception_ptr failure);

  Executor executor_;
  std::mutex mutex_;  // Protects all below.
  std::condition_variable condition_;
  bool is_cancelled_ = false;
  std::size_t running_ = 0;
  Signals signals_;  // One for each running task; tasks keep their addresses.
  std::vector<std::exception_ptr> failures_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace cairn::async
