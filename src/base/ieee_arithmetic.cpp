// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/ieee_arithmetic.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace cairn {

#if defined(__x86_64__)

// The SSE unit only, in which all float and double are computed: to set the x87, too, takes ten times as long.
IeeeArithmetic::IeeeArithmetic() noexcept : before_(_mm_getcsr()) {
  constexpr unsigned kDefault = 0x1f80;  // All exceptions masked, none raised.
  _mm_setcsr(kDefault);
  asm volatile("" : : : "memory");
}

IeeeArithmetic::~IeeeArithmetic() {
  asm volatile("" : : : "memory");
  _mm_setcsr(static_cast<unsigned>(before_));
}

#elif defined(__aarch64__)

// The flags are in a register of their own, and traps are off in the default: they may be raised here.
IeeeArithmetic::IeeeArithmetic() noexcept : before_(0) {
  asm volatile("mrs %0, fpcr\n\tmsr fpcr, xzr" : "=r"(before_) : : "memory");
}

IeeeArithmetic::~IeeeArithmetic() {
  asm volatile("msr fpcr, %0" : : "r"(before_) : "memory");
}

#else

IeeeArithmetic::IeeeArithmetic() noexcept : before_{} {
  std::fegetenv(&before_);
  std::fesetenv(FE_DFL_ENV);
}

IeeeArithmetic::~IeeeArithmetic() {
  std::fesetenv(&before_);
}

#endif

}  // namespace cairn
