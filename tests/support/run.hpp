// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>

#include "cairn/async/awaitable.hpp"

#include "async/internal/thread_pool.hpp"
#include "support/sync_wait.hpp"

namespace cairn::testing {

/// Runs `task` on a strand of a fresh pool and blocks until it has ended; returns its result or rethrows its
/// failure.
template <class T>
T run(Awaitable<T> task, std::size_t threads = 2) {
  async::ThreadPool pool(threads, "test");
  return testing::sync_wait(async::make_strand(pool.executor()), std::move(task));
}

/// Returns whether `claim` becomes true within half a minute.
inline bool eventually(const std::function<bool()>& claim) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!claim()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace cairn::testing
