// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "support/dice.hpp"
#include "support/forwarding_syscalls.hpp"

namespace cairn::testing {

/// Which calls are slow.
enum class Focus : std::uint8_t {
  all,
  transfers,  ///< Large ones, which have the caller's memory, perhaps.
  commit,     ///< Those around the rename.
};

/// How often what goes wrong, one in so many calls; 0: never.
struct Disturbances {
  std::size_t slow = 0;  ///< Takes up to `longest`, before or after it is done.
  Focus focus = Focus::all;
  std::size_t failing = 0;
  std::size_t lost_answers = 0;  ///< Of renames and links: done, and reported as failed.
  std::size_t odd = 0;           ///< Interrupted, or shorter than asked for: nobody should hear of it.
  int most_slow = 2;             ///< Slow calls at once.
  Duration longest = std::chrono::seconds(3);
};

/// The operating system of a program: some calls are slow, some fail, as the seed says.
///
/// A version of a test's own says how time passes (here: it does), which calls are left as they are, and who is told.
/// Threads: every method may be called from any thread.
class SlowCalls : public ForwardingSyscalls {
 public:
  SlowCalls(std::uint64_t seed, Disturbances disturbances) : seed_(seed), disturbances_(disturbances) {}

  /// At first, and after `calm_down`, every call is quick and succeeds.
  void stir_up() { is_calm_ = false; }
  void calm_down() { is_calm_ = true; }
  /// How many calls have failed that the system would have let succeed.
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  /// How many answers of renames and links were lost.
  [[nodiscard]] std::uint64_t lost_answers() const { return lost_answers_; }
  [[nodiscard]] std::uint64_t slow_calls() const { return slow_calls_; }

 protected:
  std::int64_t pass(const PassingCall& call) noexcept override;

  /// Spends the time that a call of `kind` takes.
  virtual void spend(CallKind kind, Duration time) noexcept;
  /// Returns whether this call is always as the system has it.
  [[nodiscard]] virtual bool is_spared(const PassingCall& call) const noexcept;
  /// Told of whatever goes wrong, on the thread that makes the call.
  virtual void tell(CallKind kind, const std::string& what) noexcept;

 private:
  enum class Trouble : std::uint8_t { none, failure, lost_answer, oddity };

  /// What happens to one call.
  struct Fate {
    Trouble trouble = Trouble::none;
    Duration before{0};
    Duration after{0};
    int error = 0;
  };

  /// One in how many calls of this kind is slow; 0: none.
  [[nodiscard]] std::size_t slowness(const PassingCall& call) const;
  [[nodiscard]] Fate decide(const PassingCall& call);
  void dawdle(CallKind kind, Duration duration);
  /// Makes the call, or what the trouble makes of it.
  std::int64_t make(const PassingCall& call, const Fate& fate);

  const std::uint64_t seed_;
  const Disturbances disturbances_;
  std::atomic<bool> is_calm_{true};
  std::atomic<int> slow_now_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<std::uint64_t> lost_answers_{0};
  std::atomic<std::uint64_t> slow_calls_{0};
  std::array<std::atomic<std::uint64_t>, kSystemCalls> seen_{};
};

}  // namespace cairn::testing
