// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cairn/core/context.hpp"

#include "base/internal/clock.hpp"

namespace cairn::core {

class Operation;

/// The operations of a context that are in flight, and the failures that nobody waited for: what `close` ends and tells.
///
/// Threads: every method may be called from any thread.
class InFlight {
 public:
  /// Options and clock outlive it.
  InFlight(const ContextOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  /// Enters an operation that has begun.
  ///
  /// Errors: Errc::closed after close().
  void enter(const std::shared_ptr<Operation>& operation);
  void leave(const Operation* operation);

  /// Keeps the failure of an operation that nobody waited for.
  void lose(const std::string& path, const std::exception_ptr& failure);

  /// Refuses new operations, waits for those in flight, stops those that take too long; those that do not end then are left
  /// behind after the grace. What the calling thread runs itself is stopped at once, and not waited for.
  /// Returns the first lost failure; when there is none, what still runs; else null.
  std::exception_ptr close();

 private:
  using Operations = std::span<const std::shared_ptr<Operation>>;

  /// Returns whether all have told how they ended before `timeout`.
  [[nodiscard]] bool wait_for_all(Operations running, std::chrono::nanoseconds timeout) const;
  static void stop(Operations running);
  /// Stops them, and waits until they have told how they ended, for the grace at most.
  void stop_all(Operations running) const;

  const ContextOptions& options_;
  const Clock& clock_;
  std::mutex mutex_;  // Protects all below.
  bool is_closed_ = false;
  std::vector<std::shared_ptr<Operation>> operations_;
  std::exception_ptr lost_;
};

}  // namespace cairn::core
