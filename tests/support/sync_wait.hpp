// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "cairn/async/awaitable.hpp"

#include "async/internal/start.hpp"

namespace cairn::testing {

using async::start;

/// Runs `task` on `executor` and blocks the calling thread until it has ended; rethrows its failure.
/// Not from a thread that `executor` needs.
inline void sync_wait(const Executor& executor, Awaitable<> task) {
  async::start(executor, std::move(task)).get();
}

template <class T>
T sync_wait(const Executor& executor, Awaitable<T> task) {
  std::optional<T> result;
  sync_wait(executor, async::detail::store_result(std::move(task), &result));
  return std::move(*result);
}

}  // namespace cairn::testing
