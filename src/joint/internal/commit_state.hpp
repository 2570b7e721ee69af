// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace cairn::joint {

/// Says how far the commit of a save has come, in one atomic word, so that the thread that publishes and the
/// one that gives up never decide differently.
///
///   running ──begin_commit──▶ committing ──end_commit──▶ committed
///      │                          └──forget──▶ unknown
///      └──stop──▶ stopped
///
/// A save that was stopped is never published. One that is unknown may be there or not; nothing that it replaced is
/// removed.
/// Threads: every method may be called from any thread.
class CommitState {
 public:
  enum class State : std::uint8_t { running, stopped, committing, committed, unknown };

  /// Asked right before the checkpoint becomes visible; false: it must not. True again while it commits already.
  bool begin_commit() noexcept {
    return move(State::running, State::committing) || state_ == State::committing;
  }

  /// Asked when the checkpoint is durable, before anything that it replaced is removed; false: somebody was told that
  /// nobody knows, so nothing may be.
  bool end_commit() noexcept { return move(State::committing, State::committed); }

  /// Forbids the publication of the save, unless it has begun. Returns the state.
  State stop() noexcept {
    move(State::running, State::stopped);
    return state_;
  }

  /// The end of the commit is no longer waited for. Returns the state.
  State forget() noexcept {
    move(State::committing, State::unknown);
    return state_;
  }

  [[nodiscard]] State state() const noexcept { return state_; }

 private:
  bool move(State from, State to) noexcept { return state_.compare_exchange_strong(from, to); }

  std::atomic<State> state_{State::running};
};

}  // namespace cairn::joint
