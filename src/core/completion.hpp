// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>

#include "async/internal/event.hpp"

namespace cairn::core {

/// Tracks how an operation ends, and in which order that is told. Each event happens once:
///   prepared  the blocking phase is over, or the operation has ended without that;
///   decided   it is clear what the answer will be;
///   answered  everybody may know how it ended;
///   told      all who listened have heard the answer;
///   done      nothing of it runs.
/// Threads: every method may be called from any thread.
class Completion {
 public:
  [[nodiscard]] const async::Event& prepared() const noexcept { return prepared_; }
  [[nodiscard]] const async::Event& decided() const noexcept { return decided_; }
  [[nodiscard]] const async::Event& answered() const noexcept { return answered_; }
  [[nodiscard]] const async::Event& told() const noexcept { return told_; }
  [[nodiscard]] const async::Event& done() const noexcept { return done_; }

  /// Claims the right to decide how the operation ends: its own end calls this before it decides, and so does
  /// whoever gives it up. Returns true for the first caller.
  [[nodiscard]] bool claim_end() noexcept { return !is_ending_.exchange(true); }
  [[nodiscard]] bool is_ending() const noexcept { return is_ending_; }

  /// Notes that the operation is given up: its answer is not its end.
  void give_up() noexcept { is_given_up_ = true; }
  [[nodiscard]] bool is_given_up() const noexcept { return is_given_up_; }

  void answer(const std::exception_ptr& failure) const noexcept {
    prepared_.complete(failure);
    answered_.complete(failure);
    told_.set();
  }

  /// Returns whether the operation is done, or was answered by its end: then only the telling is left.
  [[nodiscard]] bool is_done() const {
    return done_.has_happened() || (answered_.has_happened() && !is_given_up_);
  }

 private:
  const async::Event prepared_;
  const async::Event decided_;
  const async::Event answered_;
  const async::Event told_;
  const async::Event done_;
  std::atomic<bool> is_ending_{false};
  std::atomic<bool> is_given_up_{false};
};

}  // namespace cairn::core
