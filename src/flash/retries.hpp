// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <algorithm>
#include <chrono>

#include "cairn/base/error.hpp"

namespace cairn::flash {

/// Returns whether a copy that has failed so may succeed later: the disk was full, or away.
inline bool may_succeed_later(std::error_code failure) {
  return failure.category() == std::system_category() || failure == Errc::io_failure ||
         failure == Errc::timed_out;
}

/// How long to wait after so many failures before it is tried again: 1, 2, 4 … 60 s.
inline std::chrono::seconds pause_after(unsigned failures) {
  constexpr unsigned kMostDoublings = 6;
  constexpr std::chrono::seconds kMost{60};
  return std::min(std::chrono::seconds(1U << std::min(failures, kMostDoublings)), kMost);
}

/// The pauses before a program that fails is started again: none, then 1, 2, 4 … 60 s, and anew once it has lived for a
/// minute.
class RestartPauses {
 public:
  /// The program has failed, and has lived so long.
  [[nodiscard]] std::chrono::seconds next(std::chrono::nanoseconds lived) {
    constexpr std::chrono::minutes kLongLife{1};
    in_a_row_ = lived >= kLongLife ? 0 : in_a_row_;
    return in_a_row_++ == 0 ? std::chrono::seconds(0) : pause_after(in_a_row_ - 2);
  }

 private:
  unsigned in_a_row_ = 0;
};

}  // namespace cairn::flash
