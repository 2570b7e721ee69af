// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "cairn/async/awaitable.hpp"

#include "async/internal/event.hpp"

namespace cairn::testing {

/// Starts `task` on `executor`; the event happens when it ends, with its failure.
///
/// Ownership: whoever waits for the event owns the task; until then it must be able to run.
/// Errors:    the event fails with Errc::closed when the executor's context is destroyed before the end.
[[nodiscard]] async::Event start(const Executor& executor, Awaitable<> task);

/// Runs `task` on `executor` and blocks the calling thread until it has ended; rethrows its failure.
/// Not from a thread that `executor` needs.
inline void sync_wait(const Executor& executor, Awaitable<> task) {
  start(executor, std::move(task)).get();
}

template <class T>
T sync_wait(const Executor& executor, Awaitable<T> task) {
  std::optional<T> result;
  sync_wait(executor, async::detail::store_result(std::move(task), &result));
  return std::move(*result);
}

}  // namespace cairn::testing
