// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/core/context.hpp"

#include "async/internal/event.hpp"
#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::core {

class Operation;

/// The operations of a context that are in flight, and the failures that nobody waited for: what `close` ends and
/// tells.
///
/// Threads: every method may be called from any thread.
class OperationRegistry {
 public:
  /// Options and clock outlive it.
  OperationRegistry(const ContextOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  /// Enters an operation that has begun.
  ///
  /// Errors: Errc::closed after close().
  void enter(const std::shared_ptr<Operation>& operation);
  void leave(const Operation* operation);

  /// A call that changes the disk and is not an operation.
  struct Call {
    std::string title;
    async::Event told;   ///< Its caller knows how it ended, or that it is late.
    async::Event ended;  ///< Nothing of it runs any more.
  };

  /// Errors: Errc::closed after close().
  void enter(Call call);

  /// Keeps the failure of an operation that nobody waited for.
  void lose(const std::string& path, const std::exception_ptr& failure);

  /// Refuses new operations and calls, waits for those in flight, stops operations that take too long; what does not
  /// end then is left behind after the grace. What the calling thread runs itself is stopped at once, and not waited
  /// for. Returns the first lost failure; when there is none, what still runs; else null.
  std::exception_ptr close();

 private:
  using Operations = std::span<const std::shared_ptr<Operation>>;

  /// Errors: Errc::closed.
  void require_open() const CAIRN_REQUIRES(mutex_);
  /// Returns whether all have told how they ended before `timeout`.
  [[nodiscard]] bool wait_for_all(Operations running, std::span<const Call> calls,
                                  std::chrono::nanoseconds timeout) const;
  static void stop(Operations running);
  /// Stops them, and waits until they have told how they ended, for the grace at most.
  void stop_all(Operations running) const;

  const ContextOptions& options_;
  const Clock& clock_;
  Mutex mutex_;
  bool is_closed_ CAIRN_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<Operation>> operations_ CAIRN_GUARDED_BY(mutex_);
  std::vector<Call> calls_ CAIRN_GUARDED_BY(mutex_);
  std::exception_ptr lost_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::core
