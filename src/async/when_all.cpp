// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/this_coro.hpp>

#include "cairn/async/awaitable.hpp"

#include "async/internal/suspend.hpp"
#include "async/internal/task_group.hpp"

namespace cairn::async {
namespace {

Awaitable<> stop_the_others_on_failure(Awaitable<> task, std::shared_ptr<TaskGroup> group) {
  std::exception_ptr failure;
  try {
    if (task.valid()) {  // Else it is the background of a handler that has nothing left to do.
      co_await std::move(task);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    group->cancel();
    std::rethrow_exception(failure);
  }
}

}  // namespace

void rethrow_first(const std::vector<std::exception_ptr>& failures) {
  for (const std::exception_ptr& failure : failures) {
    if (!is_cancelled(failure)) {
      std::rethrow_exception(failure);
    }
  }
  if (!failures.empty()) {
    std::rethrow_exception(failures.front());
  }
}

Awaitable<std::vector<std::exception_ptr>> settle_all(std::vector<Awaitable<>> tasks) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  co_return co_await settle_all_on(executor, std::move(tasks));
}

Awaitable<std::vector<std::exception_ptr>> settle_all_on(Executor executor, std::vector<Awaitable<>> tasks) {
  // Once tasks run, a cancellation must not throw before they have been waited for.
  const auto group = std::make_shared<TaskGroup>(executor);
  const bool throws = co_await boost::asio::this_coro::throw_if_cancelled();
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  std::exception_ptr unspawned;
  try {
    for (Awaitable<>& task : tasks) {
      group->spawn(stop_the_others_on_failure(std::move(task), group));
    }
  } catch (...) {
    unspawned = std::current_exception();
    group->cancel();
  }
  std::vector<std::exception_ptr> failures = co_await TaskGroup::settle(group);
  co_await boost::asio::this_coro::throw_if_cancelled(throws);
  if (unspawned) {
    std::rethrow_exception(unspawned);
  }
  co_return failures;
}

Awaitable<> run_on(Executor executor, Awaitable<> task) {
  std::vector<Awaitable<>> tasks;
  tasks.push_back(std::move(task));
  const std::vector<std::exception_ptr> failures = co_await settle_all_on(executor, std::move(tasks));
  rethrow_first(failures);
}

Awaitable<> when_all(std::vector<Awaitable<>> tasks) {
  const std::vector<std::exception_ptr> failures = co_await settle_all(std::move(tasks));
  rethrow_first(failures);
}

}  // namespace cairn::async
