// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>  // Boost 1.81's awaitable.hpp uses std::exchange without including it.
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "cairn/base/error.hpp"

namespace cairn {

/// The coroutine type of every asynchronous function: lazy, movable, awaited once.
template <class T = void>
using Awaitable = boost::asio::awaitable<T>;

/// A phase that nobody has started yet. The same type as `Awaitable`; the name says who starts it:
/// not the function that returns it.
template <class T = void>
using Background = boost::asio::awaitable<T>;

/// Where coroutines are resumed.
using Executor = boost::asio::any_io_executor;

}  // namespace cairn

namespace cairn::async {

/// To be called before something is awaited that code of a user's has returned: an awaitable that was made by its
/// default constructor, or moved from, has no coroutine, and to await it ends the process.
///
/// Errors: Errc::handler_failed, with `what` has returned it.
template <class T>
void require_coroutine(const Awaitable<T>& awaitable, std::string_view what) {
  if (!awaitable.valid()) {
    throw Error(Errc::handler_failed, std::string(what) + " has returned an empty awaitable");
  }
}

/// Rethrows the first failure that is not a cancellation; where all are, the first; without a failure returns.
void rethrow_first(const std::vector<std::exception_ptr>& failures);

/// Runs all tasks concurrently with each other on the caller's executor (a strand) and waits for every one of them.
/// When one fails, the others are asked to stop. Returns the failures in the order in which they happened.
///
/// Cancel: asks the tasks to stop, and waits for them all the same.
Awaitable<std::vector<std::exception_ptr>> settle_all(std::vector<Awaitable<>> tasks);

/// The same with the tasks on another executor, a strand. They run concurrently with the caller, unless it is a lane
/// of the caller's strand.
Awaitable<std::vector<std::exception_ptr>> settle_all_on(Executor executor, std::vector<Awaitable<>> tasks);

/// Runs `task` on another executor, a strand, and waits for it; throws what it throws.
///
/// Cancel: asks the task to stop, and waits for it all the same.
Awaitable<> run_on(Executor executor, Awaitable<> task);

/// As settle_all(), then rethrows the first failure.
Awaitable<> when_all(std::vector<Awaitable<>> tasks);

namespace detail {

/// `slot` must stay valid until the returned task has finished.
template <class T>
Awaitable<> store_result(Awaitable<T> task, std::optional<T>* slot) {
  slot->emplace(co_await std::move(task));
}

}  // namespace detail

/// As above, and returns the results in the order of the tasks.
template <class T>
Awaitable<std::vector<T>> when_all(std::vector<Awaitable<T>> tasks) {
  std::vector<std::optional<T>> slots(tasks.size());
  std::vector<Awaitable<>> stores;
  stores.reserve(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    stores.push_back(detail::store_result(std::move(tasks[i]), &slots[i]));
  }
  co_await when_all(std::move(stores));
  std::vector<T> results;
  results.reserve(slots.size());
  for (auto& slot : slots) {
    results.push_back(std::move(*slot));
  }
  co_return results;
}

}  // namespace cairn::async
