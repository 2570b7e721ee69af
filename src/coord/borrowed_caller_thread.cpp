// SPDX-License-Identifier: Apache-2.0
#include "coord/internal/borrowed_caller_thread.hpp"

#include <algorithm>
#include <utility>

#include "base/internal/probe.hpp"
#include "base/internal/thread.hpp"

namespace cairn::coord {
namespace {

constexpr std::chrono::microseconds kShortestPause{100};
constexpr std::chrono::microseconds kLongestPause{1000};

}  // namespace

BorrowedCallerThread::BorrowedCallerThread(Coordinator& coordinator) noexcept
    : coordinator_(coordinator), pause_(kShortestPause) {
  if (!is_own_thread()) {
    lend();
  }
}

BorrowedCallerThread::~BorrowedCallerThread() {
  if (is_wanted_) {
    try {
      coordinator_.progress();
    } catch (...) {  // As below.
    }
  }
}

std::chrono::nanoseconds BorrowedCallerThread::progress(bool has_worked) noexcept {
  if (has_worked) {
    pause_ = kShortestPause;
  }
  lend();
  return std::exchange(pause_, std::min<std::chrono::nanoseconds>(2 * pause_, kLongestPause));
}

void BorrowedCallerThread::lend() noexcept {
  try {
    is_wanted_ = is_resting_ ? coordinator_.progress() : coordinator_.turn();
  } catch (...) {  // A transport that has broken down: others find that this rank is silent.
    CAIRN_PROBE("coord.transport_has_broken_down");
  }
}

bool BorrowedCallerThread::wait(const async::Event& event, std::chrono::nanoseconds timeout,
                                const Clock& clock) {
  if (!is_wanted_) {
    return event.wait_for(timeout, clock);
  }
  const auto end = later(clock.steady_now(), timeout);
  while (!event.wait_for(progress(false))) {
    if (clock.steady_now() >= end) {
      return event.has_happened();
    }
  }
  return true;
}

void rest(Coordinator& coordinator) noexcept {
  const BorrowedCallerThread thread(coordinator);  // Which says so at its end.
}

void wait_with_progress(Coordinator& coordinator, const async::Event& event) {
  static_cast<void>(wait_with_progress(coordinator, event, std::chrono::nanoseconds::max(), system_clock()));
}

void get_with_progress(Coordinator& coordinator, const async::Event& event) {
  wait_with_progress(coordinator, event);
  event.get();
}

bool wait_with_progress(Coordinator& coordinator, const async::Event& event, std::chrono::nanoseconds timeout,
                        const Clock& clock) {
  return BorrowedCallerThread(coordinator).wait(event, timeout, clock);
}

bool wait_with_progress_until(Coordinator& coordinator, const async::Event& event,
                              std::chrono::steady_clock::time_point end, const Clock& clock) {
  const auto now = clock.steady_now();
  const bool is_for_ever = end == std::chrono::steady_clock::time_point::max();
  const std::chrono::nanoseconds left =
      is_for_ever ? std::chrono::nanoseconds::max() : std::max(end, now) - now;
  return wait_with_progress(coordinator, event, left, clock);
}

}  // namespace cairn::coord
