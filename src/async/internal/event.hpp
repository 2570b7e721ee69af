// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>

#include "cairn/async/awaitable.hpp"

#include "base/internal/clock.hpp"

namespace cairn::async {

/// Something that happens once, with or without a failure. Copies are the same event.
///
/// Threads: every method may be called from any thread.
class Event {
 public:
  Event();

  /// One that has happened already.
  static Event happened();

  /// Makes it happen; wakes all that wait. Returns false when it had happened before.
  bool set() const noexcept { return complete(nullptr); }
  bool fail(std::exception_ptr failure) const noexcept { return complete(std::move(failure)); }
  bool complete(std::exception_ptr failure) const noexcept;

  [[nodiscard]] bool has_happened() const;

  /// Blocks the calling thread until it happened or `timeout` passed; returns whether it happened.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds timeout) const {
    return wait_for(timeout, system_clock());
  }
  /// The same on another clock.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds timeout, const Clock& clock) const;

  /// Blocks the calling thread until it happened; rethrows the failure.
  void get() const;

  /// Waits without blocking; resumes on the caller's executor; rethrows the failure.
  ///
  /// Cancel: stops waiting; the event itself goes on.
  [[nodiscard]] Awaitable<> wait() const;

  /// Calls `callback` with the failure (or null) once it happened: at once, when it has already.
  /// It runs in the thread that makes it happen, and must not throw.
  void on_complete(std::function<void(std::exception_ptr)> callback) const;

 private:
  struct State;

  static Awaitable<> wait_on(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace cairn::async
