// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/save_policy.hpp"

#include <algorithm>
#include <exception>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

namespace cairn {
namespace {

std::vector<std::string> names_of(const std::vector<SavePolicy>& policies) {
  std::vector<std::string> names;
  std::transform(policies.begin(), policies.end(), std::back_inserter(names),
                 [](const SavePolicy& each) { return each.name(); });
  return names;
}

bool any_asks_time(const std::vector<SavePolicy>& policies) {
  return std::any_of(policies.begin(), policies.end(),
                     [](const SavePolicy& each) { return each.asks_time(); });
}

bool any_needs_history(const std::vector<SavePolicy>& policies) {
  return std::any_of(policies.begin(), policies.end(),
                     [](const SavePolicy& each) { return each.needs_history(); });
}

Timeout shortest_mtbf(const std::vector<SavePolicy>& policies) {
  Timeout shortest;
  for (const SavePolicy& each : policies) {
    const bool is_shorter = each.mtbf() > Timeout() && (shortest == Timeout() || each.mtbf() < shortest);
    shortest = is_shorter ? each.mtbf() : shortest;
  }
  return shortest;
}

bool is_due(const SaveMoment& moment, const PeriodCosts& costs) {
  return !moment.is_saving && (!moment.since_last_save || *moment.since_last_save >= best_period(costs));
}

}  // namespace

SavePolicy::SavePolicy(std::string name, bool asks_time, Function function, bool needs_history, Timeout mtbf)
    : name_(std::move(name)),
      asks_time_(asks_time),
      needs_history_(needs_history),
      mtbf_(mtbf),
      function_(std::move(function)) {}

bool SavePolicy::operator()(const SaveMoment& moment) const {
  try {
    return function_(moment);
  } catch (...) {
    std::rethrow_exception(with_context(std::current_exception(), fmt::format("save policy '{}'", name_)));
  }
}

namespace save_when {

SavePolicy asked() {
  return {"asked", false, [](const SaveMoment&) { return true; }};
}

SavePolicy every_steps(std::uint64_t interval) {
  if (interval == 0) {
    throw Error(Errc::invalid_argument, "save policy 'every_steps': the interval is 0");
  }
  return {fmt::format("every_steps({})", interval), false,
          [interval](const SaveMoment& moment) { return moment.step % interval == 0; }};
}

SavePolicy continuously(Timeout apart) {
  const auto is_due = [apart](const SaveMoment& moment) {
    return !moment.is_saving && (!moment.since_last_save || *moment.since_last_save >= apart);
  };
  const double seconds = std::chrono::duration<double>(apart).count();
  return {apart > Timeout() ? fmt::format("continuously({} s)", seconds) : "continuously", true, is_due};
}

SavePolicy automatic(Timeout mtbf) {
  if (mtbf <= Timeout()) {
    throw Error(Errc::invalid_argument, "save policy 'automatic': the mean time between failures is 0");
  }
  const auto decide = [mtbf](const SaveMoment& moment) {
    PeriodCosts costs = moment.costs;
    costs.mtbf = mtbf;
    return is_due(moment, costs);
  };
  return {fmt::format("automatic({} s)", std::chrono::duration<double>(mtbf).count()), true, decide, false,
          mtbf};
}

SavePolicy automatic() {
  return {"automatic", true, [](const SaveMoment& moment) { return is_due(moment, moment.costs); }, true};
}

SavePolicy at_steps(std::vector<std::uint64_t> steps) {
  std::sort(steps.begin(), steps.end());
  const std::string name = fmt::format("at_steps({} steps)", steps.size());
  return {name, false, [steps = std::move(steps)](const SaveMoment& moment) {
            return std::binary_search(steps.begin(), steps.end(), moment.step);
          }};
}

SavePolicy first() {
  return {"first", false, [](const SaveMoment& moment) { return moment.steps.empty(); }};
}

SavePolicy preempted() {
  return {"preempted", false, [](const SaveMoment& moment) { return moment.is_preempted; }};
}

SavePolicy any_of(std::vector<SavePolicy> policies) {
  const std::string name = fmt::format("any_of({})", fmt::join(names_of(policies), ", "));
  const bool asks_time = any_asks_time(policies);
  const bool needs_history = any_needs_history(policies);
  const Timeout mtbf = shortest_mtbf(policies);
  const auto decide = [policies = std::move(policies)](const SaveMoment& moment) {
    return std::any_of(policies.begin(), policies.end(),
                       [&moment](const SavePolicy& each) { return each(moment); });
  };
  return {name, asks_time, decide, needs_history, mtbf};
}

SavePolicy all_of(std::vector<SavePolicy> policies) {
  if (policies.empty()) {
    throw Error(Errc::invalid_argument, "save policy 'all_of': there is no policy to agree");
  }
  const std::string name = fmt::format("all_of({})", fmt::join(names_of(policies), ", "));
  const bool asks_time = any_asks_time(policies);
  const bool needs_history = any_needs_history(policies);
  const Timeout mtbf = shortest_mtbf(policies);
  const auto decide = [policies = std::move(policies)](const SaveMoment& moment) {
    return std::all_of(policies.begin(), policies.end(),
                       [&moment](const SavePolicy& each) { return each(moment); });
  };
  return {name, asks_time, decide, needs_history, mtbf};
}

}  // namespace save_when
}  // namespace cairn
