// SPDX-License-Identifier: Apache-2.0
#pragma once

// CAIRN_ASSERT(condition, "what must hold") ends the program where its own rules are broken: states, order, ownership,
// sizes and offsets that must agree. It prints the words, the condition, file and line. Builds with NDEBUG (the preset
// `release`) do not evaluate the condition, so it has no side effects. What input or the system can cause is an Error.

namespace cairn {

/// Prints to the standard error output, and aborts.
[[noreturn]] void fail_assertion(const char* rule, const char* condition, const char* file,
                                 int line) noexcept;

}  // namespace cairn

#ifdef NDEBUG
#define CAIRN_ASSERT(condition, rule) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define CAIRN_ASSERT(condition, rule) \
  (static_cast<bool>(condition) ? void() : ::cairn::fail_assertion(rule, #condition, __FILE__, __LINE__))
#endif
