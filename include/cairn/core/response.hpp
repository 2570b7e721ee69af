// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/timeout.hpp"

namespace cairn::core {

class Operation;

/// An operation in flight: what the responses of saves and loads have in common.
///
/// Its end has three events, in this order:
///   answered  `wait` returns or throws; what it says stays true.
///   released  nothing of the operation touches the caller's memory any more.
///   done      nothing of it runs.
/// One that was stopped, and whose handlers or system calls do not end, is answered within ContextOptions::stop_grace
/// all the same. Where memory is used without a copy, and in calls that have no response to give, `answered` waits
/// for `released`.
///
/// A response that is destroyed or assigned to before the operation has released the caller's memory stops it and
/// waits for that. A handler of the operation itself must not wait so: it stops the operation, and the memory is free
/// when the handler has ended. Any other response may be dropped: the operation goes on.
/// Threads: every method may be called from any thread; those that wait, not from one of the context's own.
class Response {
 public:
  /// Blocks until nothing of it touches the caller's memory any more; says nothing of how it ended.
  ///
  /// Errors: Errc::invalid_argument on one of the context's own threads, which would wait for itself.
  void wait_released() const;
  /// Blocks until nothing of it runs.
  ///
  /// Errors: as above.
  void wait_done() const;

  /// Awaits `released`, and `done`; say nothing of how it ended.
  ///
  /// Cancel: stops waiting.
  [[nodiscard]] Awaitable<> released() const;
  [[nodiscard]] Awaitable<> done() const;

  [[nodiscard]] bool is_released() const;
  [[nodiscard]] bool is_done() const;

  /// Asks the operation to stop: it then fails with Errc::cancelled. A save never becomes visible then, unless it was
  /// past the point of no return and commits. Does not wait.
  void cancel() const;

 protected:
  Response() = default;
  explicit Response(std::shared_ptr<Operation> operation) noexcept : operation_(std::move(operation)) {}

  ~Response();

  Response(Response&&) noexcept = default;
  Response& operator=(Response&& other) noexcept;

  /// Null: the response refers to nothing.
  [[nodiscard]] const std::shared_ptr<Operation>& operation() const noexcept { return operation_; }

  /// Blocks until the operation is answered; rethrows what went wrong.
  void wait_answered() const;
  /// Blocks until then for `timeout` at most, and rethrows nothing.
  ///
  /// Errors: Errc::still_running.
  void wait_answered(Timeout timeout) const;

  /// Blocks until the blocking phase is over; rethrows what went wrong before.
  void wait_prepared() const;
  /// Blocks until then for `timeout` at most; rethrows likewise.
  ///
  /// Errors: Errc::still_running.
  void wait_prepared(Timeout timeout) const;

 private:
  friend void settle(const Response& response);

  void let_go() noexcept;

  std::shared_ptr<Operation> operation_;
};

}  // namespace cairn::core
