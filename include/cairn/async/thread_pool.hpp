// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

#include "cairn/async/awaitable.hpp"
#include "cairn/async/suspend.hpp"

namespace cairn::async {

/// A fixed number of threads that run functions and resume coroutines.
///
/// Threads: every method may be called from any thread; the destructor not from one of the pool's own.
class ThreadPool {
 public:
  /// Starts `threads` threads (at least one), named `name` where the system shows thread names; they give way to others
  /// by `niceness` (0 to 19).
  explicit ThreadPool(std::size_t threads, const char* name, int niceness = 0);

  /// Waits for running functions; functions that have not begun and suspended coroutines are destroyed.
  ~ThreadPool();

  /// Where coroutines run on this pool's threads, several at a time.
  [[nodiscard]] Executor executor() const;

  /// Queues `work`, which must not throw.
  void submit(std::function<void()> work);

  /// Whether the calling thread is one of the pool's.
  [[nodiscard]] bool runs_this_thread() const noexcept;

  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// An executor on top of `executor` that never runs two things at the same time.
Executor make_strand(const Executor& executor);

/// Runs `work` on the pool while the calling coroutine is suspended; rethrows what it throws.
///
/// Cancel: waits for `work` all the same: it may be using the caller's memory.
Awaitable<> offload(ThreadPool& pool, std::function<void()> work);

/// As above, for work that returns something.
template <class F>
requires(!std::is_void_v<std::invoke_result_t<F>>) Awaitable<std::invoke_result_t<F>> offload(
    ThreadPool& pool, F work) {  // outlives: who awaits keeps the pool.
  std::optional<std::invoke_result_t<F>> result;
  std::function<void()> store = [&result, &work] { result.emplace(work()); };
  co_await offload(pool, std::move(store));
  co_return std::move(*result);
}

}  // namespace cairn::async
