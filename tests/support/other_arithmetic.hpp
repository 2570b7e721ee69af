// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace cairn::testing {

#if defined(__x86_64__)

/// The control word of this thread's arithmetic, flags included.
inline std::uint64_t control_word() {
  return _mm_getcsr();
}

inline void flush_subnormals_to_zero() {
  constexpr unsigned kFlushed = 0x8040;  // Results and operands.
  _mm_setcsr(_mm_getcsr() | kFlushed);
}

#else

inline std::uint64_t control_word() {
  return static_cast<std::uint64_t>(std::fegetround());
}

inline void flush_subnormals_to_zero() {}

#endif

/// While it lives, this thread, and each that it begins, computes as programs may that Cairn is linked into: rounded
/// in another direction, and with subnormal numbers taken for zero, as an object that was linked with -ffast-math has
/// it.
class OtherArithmetic {
 public:
  explicit OtherArithmetic(int rounding) {
    std::fegetenv(&before_);
    std::fesetround(rounding);
    std::feclearexcept(FE_ALL_EXCEPT);
    flush_subnormals_to_zero();
  }

  ~OtherArithmetic() { std::fesetenv(&before_); }

  OtherArithmetic(const OtherArithmetic&) = delete;
  OtherArithmetic& operator=(const OtherArithmetic&) = delete;

  static constexpr std::array kRoundings = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

 private:
  std::fenv_t before_{};
};

}  // namespace cairn::testing
