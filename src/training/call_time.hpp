// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cairn/base/some_ranks.hpp"
#include "cairn/base/timeout.hpp"

#include "base/internal/clock.hpp"

namespace cairn::training {

/// How long a call of a training may wait: its deadline counts from here, and every wait takes what is left of it.
///
/// Threads: every method may be called from any thread.
class CallTime {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// `clock` and `root`, that of the training, outlive this. Without a `step` it is a resume. `deadline`,
  /// `join_timeout`: zero is for ever.
  ///
  /// Errors: Errc::invalid_argument: one of them is below 0.
  CallTime(const Clock& clock, const std::filesystem::path& root, std::optional<std::uint64_t> step,
           Timeout deadline, Timeout join_timeout);

  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
  [[nodiscard]] TimePoint begin() const noexcept { return begin_; }
  /// Returns what the call is about: "step 3 of run". Made when it is needed: most steps are declined.
  [[nodiscard]] std::string what() const;
  /// How long it waits for ranks that have not come.
  [[nodiscard]] Timeout join_timeout() const noexcept { return join_timeout_; }

  /// The last moment that can be told: there is no deadline.
  [[nodiscard]] TimePoint end() const {
    return deadline_ > deadline_.zero() ? later(begin_, deadline_) : TimePoint::max();
  }
  [[nodiscard]] bool is_over() const { return end() <= clock_.steady_now(); }
  /// Returns what is left of the deadline, for a part of the call; zero: there is none.
  ///
  /// Errors: Errc::timed_out.
  [[nodiscard]] Timeout left() const;
  /// Throws that it is over, and for whom the call still waits.
  [[noreturn]] void give_up(const SomeRanks& missing) const;

 private:
  const Clock& clock_;
  const std::filesystem::path& root_;
  const std::optional<std::uint64_t> step_;
  const TimePoint begin_;
  const Timeout deadline_;
  const Timeout join_timeout_;
};

}  // namespace cairn::training
