// SPDX-License-Identifier: Apache-2.0
#include "verdicts/timekeeper.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/internal/thread.hpp"
#include "support/number_from.hpp"
#include "verdicts/stillness.hpp"
#include "verdicts/watchdog.hpp"

namespace cairn::verdicts {
namespace {

using RealTime = std::chrono::steady_clock;

/// How long all may wait for nothing before they hang: something of the machine may be on its way.
constexpr std::chrono::seconds kStillForEver{3};

/// How long one program may take. Sanitizers are slow.
std::chrono::seconds patience() {
  return std::chrono::seconds(testing::number_from("CAIRN_VERDICTS_PATIENCE", 120));
}

}  // namespace

Timekeeper::Timekeeper(HarnessClock& clock, std::function<void(const std::string& why)> on_hang)
    : clock_(clock), on_hang_(std::move(on_hang)), thread_(start_thread("timekeeper", [this] { keep(); })) {}

Timekeeper::~Timekeeper() {
  is_ending_ = true;
  thread_.join();
}

void Timekeeper::hang(const std::string& why) {
  on_hang_(why);
  is_ending_ = true;
}

void Timekeeper::keep() {
  clock_.is_manual() ? keep_manual() : keep_real();
}

void Timekeeper::keep_manual() {
  constexpr std::chrono::microseconds kShortest{20};
  constexpr std::chrono::microseconds kLongest{100};
  ::prctl(PR_SET_TIMERSLACK, 1UL);  // Or each pause would be 50 us longer.
  Stillness stillness;
  const auto end = RealTime::now() + patience();
  std::chrono::microseconds pause = kShortest;
  auto last_event = RealTime::now();
  while (!is_ending_) {
    const auto now = RealTime::now();
    if (now > end) {
      return hang("the program takes too long");
    }
    const std::uint64_t looks = clock_.looks();
    if (!stillness.is_still()) {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 5 / 4 + std::chrono::microseconds(1), kLongest);
      last_event = now;
      continue;
    }
    if (const auto next = clock_.next_event()) {
      if (clock_.is_late_at(*next)) {
        report_threads("everybody waits, and what is waited for is late:\n" + clock_.describe());
      }
      clock_.advance_to(*next, looks);
      pause = kShortest;
      last_event = now;
    } else if (now - last_event > kStillForEver) {
      return hang("everybody waits, and nobody for the clock");
    } else {
      std::this_thread::sleep_for(kLongest);
    }
  }
}

void Timekeeper::keep_real() {
  const auto end = RealTime::now() + patience();
  while (!is_ending_) {
    clock_.ring_alarms();
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    if (RealTime::now() > end) {
      return hang("the program takes too long");
    }
  }
}

}  // namespace cairn::verdicts
