// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

// CAIRN_PROBE("module.what_happens") marks a rare branch: what recovers, falls back, gives up, loses an answer. Where
// the environment variable CAIRN_PROBES names a file, a process appends the name to it when it first comes by; so
// campaigns show where they have been (`tests/run --long probes`). Each name is used once. Builds with NDEBUG have none
// of it.

namespace cairn {

/// A marked place. The name is written at once: programs that are killed have been there, too.
///
/// Threads: safe.
class Probe {
 public:
  constexpr explicit Probe(const char* name) noexcept : name_(name) {}

  void pass() noexcept {
    if (!is_passed_.load(std::memory_order_relaxed)) {
      note();
    }
  }

 private:
  void note() noexcept;

  const char* const name_;
  std::atomic<bool> is_passed_{false};
};

}  // namespace cairn

#ifdef NDEBUG
#define CAIRN_PROBE(name) static_cast<void>(0)
#else
#define CAIRN_PROBE(name)                              \
  do {                                                 \
    static constinit ::cairn::Probe passed_here(name); \
    passed_here.pass();                                \
  } while (false)
#endif
