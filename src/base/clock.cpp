// SPDX-License-Identifier: Apache-2.0
#include "base/internal/clock.hpp"

namespace cairn {
namespace {

class SystemClock final : public Clock {
 public:
  std::chrono::system_clock::time_point now() const override { return std::chrono::system_clock::now(); }
  std::chrono::steady_clock::time_point steady_now() const override {
    return std::chrono::steady_clock::now();
  }
};

}  // namespace

bool Clock::wait_until(MutexLock& lock, Condition& condition, std::chrono::steady_clock::time_point when,
                       const std::function<bool()>& ready) const {
  if (when == std::chrono::steady_clock::time_point::max()) {
    condition.wait(lock, ready);
    return true;
  }
  const auto now = steady_now();
  const auto ahead = when > now ? when - now : std::chrono::nanoseconds::zero();
  return condition.wait_until(lock, later(std::chrono::steady_clock::now(), ahead), ready);
}

std::chrono::steady_clock::time_point later(std::chrono::steady_clock::time_point begin,
                                            std::chrono::nanoseconds duration) {
  constexpr auto kLast = std::chrono::steady_clock::time_point::max();
  if (duration > duration.zero() && begin > kLast - duration) {
    return kLast;
  }
  return begin + duration;
}

const Clock& system_clock() {
  // Never destroyed: threads of a context that is still busy at the end of the program go on using it.
  static const SystemClock& clock = *new SystemClock;
  return clock;
}

}  // namespace cairn
