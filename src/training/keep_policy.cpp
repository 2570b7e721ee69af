// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/keep_policy.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

namespace cairn {
namespace {

using Steps = std::span<const StepInfo>;

/// Asks `keeps` about each step.
template <class Keeps>
std::vector<bool> ask_each(Steps steps, Keeps keeps) {
  std::vector<bool> kept;
  kept.reserve(steps.size());
  for (const StepInfo& step : steps) {
    kept.push_back(keeps(step));
  }
  return kept;
}

void require_interval(std::string_view policy, bool is_some) {
  if (!is_some) {
    throw Error(Errc::invalid_argument, fmt::format("policy '{}': the interval is not above 0", policy));
  }
}

std::string with_seconds(std::string_view policy, Timeout time) {
  return fmt::format("{}({} s)", policy, std::chrono::duration<double>(time).count());
}

/// A step and how good it is.
struct Scored {
  std::size_t index = 0;
  double score = 0;
};

std::vector<bool> keep_best(Steps steps, std::string_view name,
                            const std::function<std::optional<double>(const StepInfo&)>& score,
                            std::size_t count, Prefer prefer, Unmeasured unmeasured) {
  std::vector<bool> kept(steps.size(), false);
  std::vector<Scored> scored;
  bool is_measured = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::optional<double> value = score(steps[i]);
    is_measured = is_measured || value.has_value();
    if (!value) {
      kept[i] = unmeasured == Unmeasured::keep;
    } else if (std::isfinite(*value)) {
      scored.push_back({i, prefer == Prefer::higher ? *value : -*value});
    }
  }
  if (!is_measured && unmeasured == Unmeasured::drop && !steps.empty()) {
    throw Error(Errc::not_found, fmt::format("no step has '{}'", name));
  }
  std::sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.index > b.index;
  });
  scored.resize(std::min(count, scored.size()));
  for (const Scored& best : scored) {
    kept[best.index] = true;
  }
  return kept;
}

/// The multiple of `interval` that `step` is nearest to, divided by it.
std::uint64_t nearest_multiple(std::uint64_t step, std::uint64_t interval) {
  const std::uint64_t above = step % interval;
  return step / interval + (above != 0 && above >= interval - above ? 1 : 0);
}

/// How far `step` is from that multiple.
std::uint64_t distance(std::uint64_t step, std::uint64_t interval) {
  const std::uint64_t above = step % interval;
  return above == 0 ? 0 : std::min(above, interval - above);
}

}  // namespace

KeepPolicy::KeepPolicy(std::string name, bool reads_manifests, Function function)
    : name_(std::move(name)), reads_manifests_(reads_manifests), function_(std::move(function)) {}

std::vector<bool> KeepPolicy::operator()(std::span<const StepInfo> steps, CommitTime now) const {
  std::vector<bool> kept;
  try {
    kept = function_(steps, now);
  } catch (...) {
    std::rethrow_exception(with_context(std::current_exception(), fmt::format("policy '{}'", name_)));
  }
  if (kept.size() != steps.size()) {
    throw Error(Errc::invalid_argument, fmt::format("policy '{}' answers for {} steps, but there are {}",
                                                    name_, kept.size(), steps.size()));
  }
  return kept;
}

KeepPolicy keep_any_of(std::vector<KeepPolicy> policies) {
  std::vector<std::string> names;
  bool reads_manifests = false;
  for (const KeepPolicy& policy : policies) {
    names.push_back(policy.name());
    reads_manifests = reads_manifests || policy.reads_manifests();
  }
  KeepPolicy any(fmt::format("any_of({})", fmt::join(names, ", ")), reads_manifests,
                 [policies](Steps steps, CommitTime now) {
                   std::vector<bool> kept(steps.size(), false);
                   for (const KeepPolicy& policy : policies) {
                     const std::vector<bool> by_this = policy(steps, now);
                     std::transform(kept.begin(), kept.end(), by_this.begin(), kept.begin(),
                                    std::logical_or<>());
                   }
                   return kept;
                 });
  any.parts_ = std::move(policies);
  return any;
}

namespace keep {

KeepPolicy all() {
  return {"all", false, [](Steps steps, CommitTime) { return std::vector<bool>(steps.size(), true); }};
}

KeepPolicy latest(std::size_t count) {
  return {fmt::format("latest({})", count), false, [count](Steps steps, CommitTime) {
            std::vector<bool> kept(steps.size(), false);
            std::fill_n(kept.rbegin(), std::min(count, kept.size()), true);
            return kept;
          }};
}

KeepPolicy every_steps(std::uint64_t interval) {
  require_interval("every_steps", interval != 0);
  return {fmt::format("every_steps({})", interval), false, [interval](Steps steps, CommitTime) {
            return ask_each(steps, [interval](const StepInfo& step) { return step.step % interval == 0; });
          }};
}

KeepPolicy steps_apart(std::uint64_t interval) {
  require_interval("steps_apart", interval != 0);
  return {fmt::format("steps_apart({})", interval), false, [interval](Steps steps, CommitTime) {
            std::optional<std::uint64_t> last;
            return ask_each(steps, [interval, &last](const StepInfo& step) {
              const bool is_kept = !last || step.step - *last >= interval;
              last = is_kept ? step.step : *last;
              return is_kept;
            });
          }};
}

KeepPolicy nearest_to_every(std::uint64_t interval) {
  require_interval("nearest_to_every", interval != 0);
  return {
      fmt::format("nearest_to_every({})", interval), false, [interval](Steps steps, CommitTime) {
        std::map<std::uint64_t, std::size_t> nearest;  // Multiple to the step that stands for it.
        for (std::size_t i = 0; i < steps.size(); ++i) {
          const auto [at, is_first] = nearest.try_emplace(nearest_multiple(steps[i].step, interval), i);
          if (!is_first && distance(steps[i].step, interval) <= distance(steps[at->second].step, interval)) {
            at->second = i;
          }
        }
        std::vector<bool> kept(steps.size(), false);
        for (const auto& [multiple, index] : nearest) {
          kept[index] = true;
        }
        return kept;
      }};
}

KeepPolicy time_apart(Timeout interval) {
  require_interval("time_apart", interval > Timeout());
  return {with_seconds("time_apart", interval), true, [interval](Steps steps, CommitTime) {
            std::optional<CommitTime> last;
            std::optional<CommitTime> before;
            return ask_each(steps, [&](const StepInfo& step) {
              if (!step.committed) {
                return true;
              }
              const bool is_set_back = before && *step.committed < *before;
              const bool is_kept = !last || is_set_back || *step.committed - *last >= interval;
              before = step.committed;
              last = is_kept ? step.committed : last;
              return is_kept;
            });
          }};
}

KeepPolicy at_steps(std::vector<std::uint64_t> wanted) {
  std::sort(wanted.begin(), wanted.end());
  const std::string name = fmt::format("at_steps({} steps)", wanted.size());
  return {name, false, [wanted = std::move(wanted)](Steps steps, CommitTime) {
            return ask_each(steps, [&wanted](const StepInfo& step) {
              return std::binary_search(wanted.begin(), wanted.end(), step.step);
            });
          }};
}

KeepPolicy best(std::string name, std::size_t count, Prefer prefer, Unmeasured unmeasured) {
  const auto score = [name](const StepInfo& step) {
    const auto metric = step.metrics.find(name);
    return metric == step.metrics.end() ? std::nullopt : std::optional(metric->second);
  };
  KeepPolicy policy = best_by(name, score, count, prefer, unmeasured);
  if (unmeasured == Unmeasured::keep) {
    policy.set_metric(std::move(name));
  }
  return policy;
}

KeepPolicy best_by(std::string name, std::function<std::optional<double>(const StepInfo& step)> score,
                   std::size_t count, Prefer prefer, Unmeasured unmeasured) {
  const std::string title =
      fmt::format("best({}, {}, {})", name, count, prefer == Prefer::lower ? "lower" : "higher");
  return {title, true,
          [=](Steps steps, CommitTime) { return keep_best(steps, name, score, count, prefer, unmeasured); }};
}

KeepPolicy younger_than(Timeout age) {
  require_interval("younger_than", age > Timeout());
  return {with_seconds("younger_than", age), true, [age](Steps steps, CommitTime now) {
            return ask_each(steps, [age, now](const StepInfo& step) {
              return !step.committed || *step.committed > now || now - *step.committed < age;
            });
          }};
}

KeepPolicy any_of(std::vector<KeepPolicy> policies) {
  return keep_any_of(std::move(policies));
}

}  // namespace keep
}  // namespace cairn
