// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <ratio>

namespace cairn {

/// How long to wait, in any unit of std::chrono. A span that nanoseconds cannot count (292 years) is for ever, which is
/// std::chrono::nanoseconds::max(): `std::chrono::seconds::max()` may be given without an overflow. NaN is zero.
class Timeout : public std::chrono::nanoseconds {
 public:
  constexpr Timeout() noexcept : std::chrono::nanoseconds(0) {}

  template <class Rep, class Period>
  constexpr Timeout(std::chrono::duration<Rep, Period> span) noexcept  // NOLINT(google-explicit-constructor)
      : std::chrono::nanoseconds(saturated(span)) {}

 private:
  template <class Rep, class Period>
  static constexpr std::chrono::nanoseconds saturated(std::chrono::duration<Rep, Period> span) noexcept {
    using InNanoseconds = std::ratio_divide<Period, std::nano>;
    constexpr long double kUnit = static_cast<long double>(InNanoseconds::num) / InNanoseconds::den;
    constexpr auto kMost = static_cast<long double>(max().count());
    const long double nanoseconds = static_cast<long double>(span.count()) * kUnit;
    if (nanoseconds >= kMost) {
      return max();
    }
    if (nanoseconds <= -kMost) {
      return -max();
    }
    if (nanoseconds != nanoseconds) {
      return zero();
    }
    if constexpr (InNanoseconds::den == 1) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(span);  // Exact.
    } else {
      return std::chrono::nanoseconds(static_cast<rep>(nanoseconds));
    }
  }
};

}  // namespace cairn
