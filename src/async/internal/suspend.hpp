// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "cairn/async/awaitable.hpp"

namespace cairn::async {

/// Resumes one suspended coroutine, on the coroutine's own executor.
///
/// Copies resume the same coroutine; the first call counts, later ones do nothing. When the last copy goes
/// away without a call, the coroutine is destroyed: it never runs on, and leaks nothing. So it is when its
/// execution context goes away first; calling does nothing then.
/// Threads: may be called from any thread.
class Resume {
 public:
  class Suspended;
  class Registry;

  explicit Resume(std::shared_ptr<Suspended> suspended) : suspended_(std::move(suspended)) {}

  /// Resumes the coroutine; it throws `failure` at its `co_await` when there is one. Ends the process when there is no
  /// memory to schedule it: it would never run on, and nobody would know.
  void operator()(std::exception_ptr failure = nullptr) const noexcept;

 private:
  std::shared_ptr<Suspended> suspended_;
};

/// Called once, in the suspended coroutine's thread, with the handle that ends the suspension.
using Start = std::function<void(Resume)>;

/// Called when the coroutine is cancelled while suspended; usually resumes it with `cancelled()`.
using OnCancel = std::function<void(Resume)>;

/// Suspends the calling coroutine until somebody calls the `Resume` that `start` was given; throws what `start` throws.
/// Every asynchronous operation of Cairn is built on this. Ends the process when there is no memory for the suspension.
///
/// Cancel: without `on_cancel`, cancelling waits for the resumption: right for operations that the kernel
///         may still be working on. With it, the operation decides.
Awaitable<> suspend(Start start, OnCancel on_cancel = nullptr) noexcept;

/// The exception of a cancelled operation: what Asio's own operations throw.
std::exception_ptr cancelled();

/// Returns whether an exception says that its operation was cancelled. No exception says so.
bool is_cancelled(const std::exception_ptr& failure);

/// Whether the calling coroutine has been cancelled.
Awaitable<bool> cancellation_requested();

}  // namespace cairn::async
