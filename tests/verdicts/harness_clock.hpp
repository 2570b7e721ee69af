// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/internal/clock.hpp"
#include "support/dice.hpp"

namespace cairn::verdicts {

using testing::Dice;
using testing::Duration;
using testing::Moment;

/// The clock by which a program, the library and the slow calls of the system live.
///
/// A manual one stands still until `advance_to`: what takes 3 s takes no time at all. A real one is the machine's.
/// Threads: every method may be called from any thread.
class HarnessClock final : public Clock {
 public:
  explicit HarnessClock(bool is_manual) : is_manual_(is_manual) {}

  [[nodiscard]] bool is_manual() const noexcept { return is_manual_; }

  [[nodiscard]] std::chrono::system_clock::time_point now() const override;
  [[nodiscard]] Moment steady_now() const override;
  bool wait_until(MutexLock& lock, Condition& condition, Moment when,
                  const std::function<bool()>& ready) const override;

  /// Blocks the calling thread; says what it waits for, for the watchdog.
  void sleep_for(Duration duration, const std::string& what) const;

  /// Has `alarm` called at that moment, on the timekeeper's thread. It must not block.
  std::uint64_t at(Moment when, std::function<void()> alarm);
  /// Forgets that alarm, and waits until it has rung when it does just now.
  void forget(std::uint64_t alarm);

  /// When the next sleeper is to be woken or the next alarm rings; nothing when all wait for something else.
  [[nodiscard]] std::optional<Moment> next_event() const;

  /// How often anybody has looked at a manual clock so far.
  [[nodiscard]] std::uint64_t looks() const;

  /// Sets a manual clock, wakes who waited for that and rings the alarms, in their order. Does nothing when anybody
  /// has looked at it since `looks`: a context's destructor, say, waits up to 0.1 s of the machine's time, and who
  /// goes on after that counts on the time that he has seen.
  void advance_to(Moment when, std::uint64_t looks);
  /// Rings the alarms whose moment has come; for a real clock.
  void ring_alarms();

  /// Somebody waits for what must have happened by then.
  void expect(Moment limit) { expected_ = limit; }
  /// Returns whether to go on to `when` makes what is expected late.
  [[nodiscard]] bool is_late_at(Moment when) const { return when > expected_.load(); }

  /// Who sleeps until when, in words.
  [[nodiscard]] std::string describe() const;

 private:
  struct Sleeper {
    std::mutex* mutex;
    Condition* condition;
    Moment when;
    const std::string* what;
    bool is_told = false;
  };

  bool sleep(MutexLock& lock, Condition& condition, Moment when, const std::function<bool()>& ready,
             const std::string* what) const;
  void wake_sleepers();

  const bool is_manual_;
  std::atomic<Moment> expected_{Moment::max()};
  // Taken after the mutex of a sleeper, never before it: whoever wakes sleepers only tries theirs.
  mutable std::mutex mutex_;
  mutable std::list<Sleeper> sleepers_;
  std::map<std::pair<Moment, std::uint64_t>, std::function<void()>> alarms_;
  std::uint64_t last_alarm_ = 0;
  std::uint64_t ringing_ = 0;  // Or 0.
  std::condition_variable rung_;
  Moment now_{std::chrono::hours(1)};
  mutable std::uint64_t looks_ = 0;
};

/// While it lives somebody waits for what must have happened by then: who is late tells why, in stacks.
class Expectation {
 public:
  Expectation(HarnessClock& clock, Moment limit) : clock_(clock) { clock_.expect(limit); }
  ~Expectation() { clock_.expect(Moment::max()); }
  Expectation(const Expectation&) = delete;
  Expectation& operator=(const Expectation&) = delete;

 private:
  HarnessClock& clock_;
};

}  // namespace cairn::verdicts
