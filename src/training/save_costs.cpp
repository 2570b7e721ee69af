// SPDX-License-Identifier: Apache-2.0
#include "training/internal/save_costs.hpp"

#include <utility>

namespace cairn::training {
namespace {

void learn(std::chrono::nanoseconds& cost, std::chrono::nanoseconds measured, bool& is_known) {
  cost = std::exchange(is_known, true) ? cost + (measured - cost) / 3 : measured;
}

}  // namespace

void SaveCosts::add_blocking(std::chrono::nanoseconds time) {
  const MutexLock lock(mutex_);
  blocked_ += time;
  learn(costs_.blocking, time, has_blocked_);
}

void SaveCosts::add_durable(std::chrono::nanoseconds time) {
  const MutexLock lock(mutex_);
  learn(costs_.durable, time, has_ended_);
}

PeriodCosts SaveCosts::costs() const {
  const MutexLock lock(mutex_);
  return costs_;
}

PeriodReport SaveCosts::report(Timeout mtbf, Timeout restart) const {
  PeriodReport report;
  report.costs = costs();
  report.costs.mtbf = mtbf;
  report.costs.restart = restart;
  report.mtbf_from = "caller";
  report.period = best_period(report.costs);
  report.expected_loss = expected_loss(report.period, report.costs);
  const std::chrono::duration<double> lived = clock_.steady_now() - begin_;
  const MutexLock lock(mutex_);
  report.goodput = lived.count() > 0 ? 1 - std::chrono::duration<double>(blocked_) / lived : 1;
  return report;
}

PeriodReport SaveCosts::report(const SavePolicy& policy, std::chrono::nanoseconds estimated_mtbf) const {
  const bool is_given = policy.mtbf() > Timeout();
  PeriodReport report = this->report(is_given ? policy.mtbf() : Timeout(estimated_mtbf), Timeout());
  report.mtbf_from = is_given ? "policy" : "history";
  return report;
}

}  // namespace cairn::training
