// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/training/keep_policy.hpp"

namespace cairn {
namespace {

using Reasons = std::vector<std::string>;

void add_reasons(const KeepPolicy& policy, std::span<const StepInfo> steps, CommitTime now,
                 std::vector<Reasons>& reasons) {
  if (!policy.parts().empty()) {
    for (const KeepPolicy& part : policy.parts()) {
      add_reasons(part, steps, now, reasons);
    }
    return;
  }
  const std::vector<bool> kept = policy(steps, now);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) {
      reasons[i].push_back(policy.name());
    }
  }
}

/// Adds the steps that no policy may remove.
void add_safety(std::span<const StepInfo> steps, const StepUse& use, std::vector<Reasons>& reasons) {
  bool has_sound = false;
  for (std::size_t i = steps.size(); i-- > 0;) {
    const StepInfo& each = steps[i];
    if (i + 1 == steps.size()) {
      reasons[i].emplace_back("newest");
    }
    if (!has_sound && !use.damaged.contains(each.step)) {
      has_sound = true;
      if (i + 1 != steps.size()) {
        reasons[i].emplace_back("newest that is sound");
      }
    }
    if (use.recent.contains(each.step)) {
      reasons[i].emplace_back("just saved");
    }
    if (use.in_use.contains(each.step)) {
      reasons[i].emplace_back("being saved or loaded");
    }
    if (each.is_pinned) {
      reasons[i].emplace_back("pinned");
    }
  }
}

}  // namespace

RetentionPlan plan_retention(const KeepPolicy& policy, std::span<const StepInfo> steps, CommitTime now,
                             const StepUse& use) {
  RetentionPlan plan;
  std::vector<StepInfo> readable;
  for (const StepInfo& step : steps) {
    if (step.problem.empty()) {
      readable.push_back(step);
    } else {
      plan.kept.push_back({step.step, fmt::format("damaged: {}", step.problem)});
    }
  }
  std::vector<Reasons> reasons(readable.size());
  add_reasons(policy, readable, now, reasons);
  add_safety(readable, use, reasons);
  std::vector<KeptStep> kept;
  auto damaged = plan.kept.begin();
  for (std::size_t i = 0; i < readable.size(); ++i) {
    for (; damaged != plan.kept.end() && damaged->step < readable[i].step; ++damaged) {
      kept.push_back(std::move(*damaged));
    }
    if (reasons[i].empty()) {
      plan.removed.push_back(std::move(readable[i]));
    } else {
      kept.push_back({readable[i].step, fmt::format("{}", fmt::join(reasons[i], ", "))});
    }
  }
  kept.insert(kept.end(), std::make_move_iterator(damaged), std::make_move_iterator(plan.kept.end()));
  plan.kept = std::move(kept);
  return plan;
}

}  // namespace cairn
