// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/base/error.hpp"

#include "async/internal/event.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::core {

/// How far an operation has come, why it was asked to stop, and in which order its end is told.
///
///   running ──stop──▶ stopping ──give_up──▶ given up: it is answered without its end, which still comes
///      └──────end────────┴──────▶ ended
///
/// Each of these happens once:
///   prepared  the blocking phase is over, or the operation has ended without that;
///   decided   it is clear what the answer will be;
///   answered  everybody may know how it ended;
///   told      all who listened have heard the answer;
///   done      nothing of it runs.
/// Threads: every method may be called from any thread.
class Lifecycle {
 public:
  /// `what` is the operation, for messages: "save of <path>".
  explicit Lifecycle(std::string what) : what_(std::move(what)) {}

  /// Asks it to stop. Returns false when it was asked before, or has ended.
  [[nodiscard]] bool stop(Errc reason, std::string_view why);
  /// It has not ended in time after that. Returns true where the caller is to answer it; false when it has ended.
  [[nodiscard]] bool give_up() noexcept;
  /// It has ended. Returns true where the caller is to answer it; false when it was given up.
  [[nodiscard]] bool end() noexcept;

  [[nodiscard]] bool is_stopped() const;
  [[nodiscard]] bool is_given_up() const { return phase() == Phase::given_up; }
  /// Returns whether somebody answers it, or has.
  [[nodiscard]] bool is_ending() const { return phase() == Phase::given_up || phase() == Phase::ended; }
  /// Why it was asked to stop; Errc::cancelled when it was not.
  [[nodiscard]] Error reason() const;
  /// Returns what waiters are told of a failure: instead of a cancellation, the reason for it.
  [[nodiscard]] std::exception_ptr explain(const std::exception_ptr& failure) const;

  void answer(const std::exception_ptr& failure) const noexcept;
  /// Returns whether the operation is done, or was answered by its end: then only the telling is left.
  [[nodiscard]] bool is_done() const {
    return done_.has_happened() || (answered_.has_happened() && !is_given_up());
  }

  [[nodiscard]] const async::Event& prepared() const noexcept { return prepared_; }
  [[nodiscard]] const async::Event& decided() const noexcept { return decided_; }
  [[nodiscard]] const async::Event& answered() const noexcept { return answered_; }
  [[nodiscard]] const async::Event& told() const noexcept { return told_; }
  [[nodiscard]] const async::Event& done() const noexcept { return done_; }

 private:
  enum class Phase : std::uint8_t { running, stopping, given_up, ended };

  [[nodiscard]] Phase phase() const;

  const std::string what_;
  mutable Mutex mutex_;
  Phase phase_ CAIRN_GUARDED_BY(mutex_) = Phase::running;
  std::optional<Error> reason_ CAIRN_GUARDED_BY(mutex_);
  const async::Event prepared_;
  const async::Event decided_;
  const async::Event answered_;
  const async::Event told_;
  const async::Event done_;
};

}  // namespace cairn::core
