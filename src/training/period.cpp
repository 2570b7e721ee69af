// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/training/save_policy.hpp"

#include "base/internal/json_writer.hpp"

namespace cairn {
namespace {

using std::chrono::nanoseconds;

double seconds_of(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

nanoseconds time_of(double seconds) {
  constexpr double kMost = 9e9;  // Of the seconds that nanoseconds of 64 bits can tell.
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(std::min(seconds, kMost)));
}

void require_sense(nanoseconds cost, nanoseconds mtbf) {
  if (cost.count() < 0 || mtbf.count() <= 0) {
    throw Error(Errc::invalid_argument, fmt::format("a save cannot cost {} s with {} s between two failures",
                                                    seconds_of(cost), seconds_of(mtbf)));
  }
}

/// Name, what it means, and the value, as both forms have them.
using Figure = std::pair<std::pair<const char*, const char*>, double>;

std::array<Figure, 7> figures_of(const PeriodReport& report) {
  return {
      {{{"save_period_seconds", "The time between two saves that loses least."}, seconds_of(report.period)},
       {{"expected_loss_ratio", "The part of the time that is lost with it."}, report.expected_loss},
       {{"goodput_ratio", "The part of the time in which no save has stopped the program."}, report.goodput},
       {{"save_blocking_seconds", "How long a save stops the program."}, seconds_of(report.costs.blocking)},
       {{"save_durable_seconds", "From the call of a save until it is committed."},
        seconds_of(report.costs.durable)},
       {{"mtbf_seconds", "Mean time between two failures."}, seconds_of(report.costs.mtbf)},
       {{"restart_seconds", "From a failure until the program computes again."},
        seconds_of(report.costs.restart)}}};
}

}  // namespace

nanoseconds estimated_mtbf(const FailureHistory& history) {
  constexpr nanoseconds kDay = std::chrono::hours(24);
  return time_of((seconds_of(history.lived) + seconds_of(kDay)) /
                 (static_cast<double>(history.failures) + 1));
}

nanoseconds mtbf_of(double probability, Timeout time, std::uint64_t machines) {
  if (!(probability > 0 && probability < 1) || time.count() <= 0 || machines == 0) {
    throw Error(Errc::invalid_argument, fmt::format("{} machines cannot fail with probability {} in {} s",
                                                    machines, probability, seconds_of(time)));
  }
  return time_of(-seconds_of(time) / (static_cast<double>(machines) * std::log1p(-probability)));
}

nanoseconds young_period(nanoseconds cost, nanoseconds mtbf) {
  require_sense(cost, mtbf);
  return time_of(std::sqrt(2 * seconds_of(cost) * seconds_of(mtbf)));
}

nanoseconds daly_period(nanoseconds cost, nanoseconds mtbf) {
  require_sense(cost, mtbf);
  const double c = seconds_of(cost);
  const double m = seconds_of(mtbf);
  if (c >= 2 * m) {
    return mtbf;
  }
  const double part = c / (2 * m);
  return time_of(std::sqrt(2 * c * m) * (1 + std::sqrt(part) / 3 + part / 9) - c);
}

nanoseconds best_period(const PeriodCosts& costs) {
  return std::max(daly_period(costs.blocking, costs.mtbf), costs.durable);
}

double expected_loss(nanoseconds period, const PeriodCosts& costs) {
  require_sense(costs.blocking, costs.mtbf);
  if (period.count() <= 0) {
    return 1;
  }
  const double t = seconds_of(period);
  const double m = seconds_of(costs.mtbf);
  // What is computed after the last durable save is computed again: half a period, and the time that a save takes to
  // be durable.
  const double again = t / 2 + seconds_of(costs.durable);
  return std::min(1.0, seconds_of(costs.blocking) / t + again / m + seconds_of(costs.restart) / m);
}

std::string PeriodReport::json() const {
  std::string text;
  JsonWriter writer(text);
  writer.begin_object();
  for (const auto& [name, value] : figures_of(*this)) {
    writer.key(name.first).value(value);
  }
  writer.key("mtbf_from").value(mtbf_from).end();
  return text;
}

std::string PeriodReport::prometheus_text() const {
  std::string text;
  for (const auto& [name, value] : figures_of(*this)) {
    const std::string metric = fmt::format("cairn_training_{}", name.first);
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n{0} {2}\n", metric, name.second, value);
  }
  return text;
}

}  // namespace cairn
