// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

#include "cairn/async/awaitable.hpp"

#include "async/internal/gate.hpp"
#include "async/internal/suspend.hpp"

namespace cairn::async {

/// How many threads a pool has.
struct PoolThreads {
  PoolThreads(std::size_t fixed) : first(fixed), most(fixed) {}  // NOLINT: implicit, a number is one.
  PoolThreads(std::size_t at_first, std::size_t at_most) : first(at_first), most(at_most) {}

  std::size_t first;  ///< From the start; at least one.
  std::size_t most;   ///< Others join when all are busy, and stay.
};

/// Threads that run functions and resume coroutines.
///
/// Threads: every method may be called from any thread; the destructor not from one of the pool's own.
class ThreadPool {
 public:
  /// Starts threads named `name` where the system shows thread names; they yield to others by `niceness` (0 to 19).
  explicit ThreadPool(PoolThreads threads, const char* name, int niceness = 0);

  /// Waits for running functions; functions that have not begun and suspended coroutines are destroyed.
  ~ThreadPool();

  /// Where coroutines run on this pool's threads, several at a time.
  [[nodiscard]] Executor executor() const;

  /// Queues `work`, which must not throw.
  void submit(std::function<void()> work);

  /// Returns whether the calling thread is one of the pool's.
  [[nodiscard]] bool runs_this_thread() const noexcept;

  /// How many threads it has had from the start.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// An executor on top of `executor` that never runs two things at the same time.
Executor make_strand(const Executor& executor);

/// A strand whose work is run by the thread that calls `drive`, until somebody calls `release_driver`; afterwards by
/// the pool. What it is given before anybody drives it waits. The code that makes one drives it.
Executor make_driven_strand(const ThreadPool& pool);

/// A companion strand of a driven one: the thread that drives that runs its work, too, while it has nothing else to
/// do. What blocks that thread does not keep this work waiting: the pool runs it.
Executor make_companion_strand(const Executor& strand);

/// Runs the work of a driven strand on the calling thread. Returns after `release_driver`, when the piece of work that
/// runs then has ended.
/// `while_idle`, if it is not empty, is called while there is no work, as often as it says. Must not throw.
void drive(const Executor& strand,
           const std::function<std::chrono::nanoseconds(bool has_worked)>& while_idle = {}) noexcept;
void release_driver(const Executor& strand) noexcept;

/// Returns whether the calling thread runs work of a strand of a pool.
[[nodiscard]] bool runs_this_thread(const Executor& strand) noexcept;

/// The same strand (of a pool) for work that can be given up: once `gate` is closed, such work is destroyed when its
/// turn comes, with the coroutines that it would resume. Work that runs is a visitor of the gate.
Executor make_lane(const Executor& strand, Gate gate);

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
