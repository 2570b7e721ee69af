// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>
#include <cstdint>

namespace cairn {

/// While it lives, this thread computes as IEEE 754 has it by default: rounded to nearest, ties to even, subnormals
/// kept, no traps. Afterwards the thread has its own control word again, and the flags that it had before.
///
/// A program may compute otherwise: a single object that was linked with -ffast-math makes zeros of subnormals in the
/// whole process, and threads inherit it. What is stored must not depend on that, so whatever turns numbers into
/// others, or into text, does it under one of these.
///
/// Threads: of the thread that makes it, which must be the one that destroys it: none in a coroutine lives over a
///          `co_await`.
/// Example: const IeeeArithmetic arithmetic;
///          return IeeeArithmetic::in_order(static_cast<float>(IeeeArithmetic::in_order(value)));
class IeeeArithmetic {
 public:
  IeeeArithmetic() noexcept;
  ~IeeeArithmetic();

  IeeeArithmetic(const IeeeArithmetic&) = delete;
  IeeeArithmetic& operator=(const IeeeArithmetic&) = delete;

  /// Returns `value`. Compilers do not know that arithmetic depends on the control word, and may move it to where
  /// another one is set: operands and results that are not in memory have to pass through this.
  template <class T>
  [[nodiscard]] static T in_order(T value) noexcept {
    asm volatile("" : "+m"(value) : : "memory");
    return value;
  }

 private:
#if defined(__x86_64__) || defined(__aarch64__)
  std::uint64_t before_;
#else
  std::fenv_t before_;
#endif
};

}  // namespace cairn
