// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "async/internal/event.hpp"

namespace cairn::async {

/// Counts who is inside, and can be closed: from then on nobody enters, and an event tells when the last has left.
///
/// For things that are handed back while others may still use them: memory of the caller's, a directory that is to be
/// removed.
/// Threads: every method may be called from any thread. Copies are the same gate.
class Gate {
 public:
  /// Somebody inside; leaves when it goes away. Empty when the gate was closed.
  class Visit;

  Gate();

  /// One that is closed, with nobody inside.
  static Gate closed();

  /// Takes no lock, and no memory.
  [[nodiscard]] Visit try_enter() const noexcept;

  /// Lets nobody in any more. The second call does nothing.
  void close() const;

  [[nodiscard]] bool is_closed() const noexcept;

  /// Happens when the gate is closed and the last visitor has left: in the thread of the last visitor.
  [[nodiscard]] const Event& left() const noexcept;

 private:
  struct State;

  explicit Gate(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class Gate::Visit {
 public:
  Visit() = default;

  ~Visit() { leave(); }

  Visit(Visit&& other) noexcept : state_(std::move(other.state_)) {}

  Visit& operator=(Visit&& other) noexcept {
    if (this != &other) {
      leave();
      state_ = std::move(other.state_);
    }
    return *this;
  }

  explicit operator bool() const noexcept { return state_ != nullptr; }

  void leave() noexcept;

 private:
  friend class Gate;

  explicit Visit(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace cairn::async
