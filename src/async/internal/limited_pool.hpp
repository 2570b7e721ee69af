// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "cairn/async/awaitable.hpp"

#include "async/internal/thread_pool.hpp"

namespace cairn::async {

/// A share of a pool: of the functions that are given to it, only so many run at once; the others wait here, and take
/// no thread. So one operation with thousands of blocking calls leaves threads to the others.
///
/// Threads: every method may be called from any thread. Copies are the same share. The pool outlives its work.
class LimitedPool {
 public:
  LimitedPool(ThreadPool& pool, std::size_t most_at_once);

  /// Queues `work`, which must not throw.
  void submit(std::function<void()> work) const;

  /// How many run at once.
  [[nodiscard]] std::size_t size() const noexcept;

  /// Returns whether the calling thread runs some of its work.
  [[nodiscard]] bool runs_this_thread() const noexcept;

 private:
  struct State;

  std::shared_ptr<State> state_;
};

/// Runs `work` there while the calling coroutine is suspended; rethrows what it throws.
///
/// Cancel: waits for `work` all the same: it may be using the caller's memory.
Awaitable<> offload(LimitedPool pool, std::function<void()> work);

}  // namespace cairn::async
