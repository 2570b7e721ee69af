// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cairn/base/timeout.hpp"

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

  /// An object; times in seconds.
  [[nodiscard]] std::string json() const;
  /// In Prometheus' text format: `cairn_training_save_period_seconds` and so on.
  [[nodiscard]] std::string prometheus_text() const;
};

}  // namespace cairn
