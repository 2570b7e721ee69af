// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/base/timeout.hpp"
#include "cairn/training/step_directory.hpp"

namespace cairn {

/// The cost of a save to a training, and how often the training fails: the best time between two saves
/// follows from both.
struct PeriodCosts {
  std::chrono::nanoseconds blocking{0};  ///< For which a save stops the program.
  std::chrono::nanoseconds durable{0};   ///< From its call until the step is committed.
  std::chrono::nanoseconds mtbf{0};      ///< Mean time between two failures of the job; positive.
  std::chrono::nanoseconds restart{0};   ///< From a failure until the program computes again.
};

/// Young's rule, sqrt(2 C M) with the cost C of a save and the mean time M between failures.
///
/// Errors: Errc::invalid_argument: a time below 0, or an M of 0. So do all here.
/// Source: J. W. Young, A first order approximation to the optimum checkpoint interval, 1974.
[[nodiscard]] std::chrono::nanoseconds young_period(std::chrono::nanoseconds cost,
                                                    std::chrono::nanoseconds mtbf);

/// Daly's rule, which is more accurate where saves are not cheap compared with failures: sqrt(2 C M) (1 + sqrt(C / 2
/// M) / 3 + C / 18 M) - C; M where C is 2 M or more.
///
/// Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006.
[[nodiscard]] std::chrono::nanoseconds daly_period(std::chrono::nanoseconds cost,
                                                   std::chrono::nanoseconds mtbf);

/// The time between the begins of two saves that loses least: Daly's for what a save blocks, but never shorter than a
/// durable save takes.
[[nodiscard]] std::chrono::nanoseconds best_period(const PeriodCosts& costs);

/// The part of the time that is lost with saves so far apart: to saves, to what is computed again after a failure,
/// and to restarts. For a period of 0 that is all of it; 1 at most.
[[nodiscard]] double expected_loss(std::chrono::nanoseconds period, const PeriodCosts& costs);

/// The mean time between two failures of a job on so many machines, each of which fails within `time` with this
/// probability: -time / (machines ln(1 - probability)).
///
/// Errors: Errc::invalid_argument: no time or machines, or a probability that is not between 0 and 1, or one of them.
[[nodiscard]] std::chrono::nanoseconds mtbf_of(double probability, Timeout time, std::uint64_t machines = 1);

/// How often the programs of a run have failed so far.
struct FailureHistory {
  std::uint64_t programs = 0;         ///< That have saved steps, and the one that asks.
  std::uint64_t failures = 0;         ///< The earlier programs that ended without Checkpointer::close.
  std::chrono::nanoseconds lived{0};  ///< All of their time, each until it was last known to live.
  /// How often steps on disk were needed: after each failure or, with a FlashCheckpointer, after those where the next
  /// program has found no steps in memory.
  std::uint64_t losses = 0;
};

/// Returns what they say of the mean time between two failures, as if a day with one failure had gone before:
/// (lived + 24 h) / (failures + 1).
[[nodiscard]] std::chrono::nanoseconds estimated_mtbf(const FailureHistory& history);

/// Holds what a training has measured of its saves, and what follows from it.
struct PeriodReport {
  PeriodCosts costs;
  std::chrono::nanoseconds period{0};  ///< best_period of them.
  double expected_loss = 0;            ///< With that period.
  double goodput = 1;                  ///< The part of its time in which no save has stopped the program.
  std::string
      mtbf_from;  ///< Who says `costs.mtbf`: "caller", "policy" (it was given one) or "history" (of the run).

  /// An object; times in seconds.
  [[nodiscard]] std::string json() const;
  /// In Prometheus' text format: `cairn_training_save_period_seconds` and so on.
  [[nodiscard]] std::string prometheus_text() const;
};

/// Everything that a policy decides by when a training asks whether to save a step.
struct SaveMoment {
  std::uint64_t step = 0;
  /// The time of day; only for policies that ask for it.
  CommitTime now;
  /// Since the last save began or, before the first one of this process, since the newest step was committed, as far
  /// as the two clocks agree: never negative. Nothing where no step is saved. Only for policies that ask for the
  /// time.
  std::optional<std::chrono::nanoseconds> since_last_save;
  /// The steps that are saved, and the one that is being saved; sorted.
  std::span<const std::uint64_t> steps;
  bool is_saving = false;  ///< A save is in flight. Only for policies that ask for the time.
  /// The costs of saves so far, without a mean time between failures; all 0 before the first one has ended.
  /// Only for policies that ask for the time.
  PeriodCosts costs;
  bool is_preempted =
      false;  ///< The end of the process was announced, and no save was begun since, or the last has failed.
};

/// Says at which steps to save: a value, without a state of its own.
///
/// Example: options.save = save_when::any_of({save_when::every_steps(1000), save_when::preempted()});
///          options.save = [](const SaveMoment& moment) { return moment.step % 7 == 3; };
/// Of several ranks rank 0 evaluates time-based policies for all. It asks CheckpointerOptions::preemption_margin steps
/// ahead, with predicted moments; custom functions count as time-based. What a policy throws for a step ahead is thrown
/// when that step has come.
/// Threads: asked on the thread that calls Checkpointer::save.
class SavePolicy {
 public:
  using Function = std::function<bool(const SaveMoment& moment)>;

  /// Any function; the clock is read for it.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, SavePolicy> && std::predicate<F&, const SaveMoment&>)
      SavePolicy(F function)  // NOLINT: implicit, so that a lambda is one.
      : SavePolicy("a policy of the program's own", true, Function(std::move(function))) {}

  /// `name` is for messages. A policy that `asks_time` costs a look at the clock at each step, and is
  /// evaluated by rank 0 alone. A policy that `needs_history` finds PeriodCosts::mtbf estimated from how the
  /// programs of the run have ended, which the root then records. `mtbf`: what it goes by; 0: nothing of its own.
  SavePolicy(std::string name, bool asks_time, Function function, bool needs_history = false,
             Timeout mtbf = {});

  /// Errors: what a function of the program's own throws, with the policy named.
  [[nodiscard]] bool operator()(const SaveMoment& moment) const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool asks_time() const noexcept { return asks_time_; }
  [[nodiscard]] bool needs_history() const noexcept { return needs_history_; }
  /// The mean time between failures that it was given; of several that it is made of the shortest; 0 without.
  [[nodiscard]] Timeout mtbf() const noexcept { return mtbf_; }

 private:
  std::string name_;
  bool asks_time_;
  bool needs_history_;
  Timeout mtbf_;
  Function function_;
};

namespace save_when {

/// Each time that it is asked.
[[nodiscard]] SavePolicy asked();

/// Multiples of `interval`; step 0 is one.
///
/// Errors: Errc::invalid_argument: an interval of 0.
[[nodiscard]] SavePolicy every_steps(std::uint64_t interval);

/// Whenever no save is in flight, and the last one began at least `apart` ago.
[[nodiscard]] SavePolicy continuously(Timeout apart = {});

/// As often as it loses least time, for a job that fails every `mtbf` on average: see best_period. What a save costs
/// is measured; until the first one has ended, at the first step.
///
/// Errors: Errc::invalid_argument: an mtbf of 0.
[[nodiscard]] SavePolicy automatic(Timeout mtbf);
/// The same for a job that fails as often as the programs of its run have failed so far: see estimated_mtbf.
[[nodiscard]] SavePolicy automatic();

/// These and no others.
[[nodiscard]] SavePolicy at_steps(std::vector<std::uint64_t> steps);

/// When nothing is saved yet.
[[nodiscard]] SavePolicy first();

/// Once, after the end of the process was announced; again where that save has failed. See PreemptionGuard.
[[nodiscard]] SavePolicy preempted();

/// When one of them says so; with none, never.
[[nodiscard]] SavePolicy any_of(std::vector<SavePolicy> policies);

/// When all of them say so.
///
/// Errors: Errc::invalid_argument: no policy at all.
[[nodiscard]] SavePolicy all_of(std::vector<SavePolicy> policies);

}  // namespace save_when

}  // namespace cairn
