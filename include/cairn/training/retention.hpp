// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cairn/training/keep_policy.hpp"
#include "cairn/training/step_info.hpp"

namespace cairn {

/// A step that stays, and why: "latest(3)", "newest", "pinned", "being saved or loaded".
struct KeptStep {
  std::uint64_t step = 0;
  std::string why;  ///< All reasons, with commas between them.
};

/// Decides for each step of a root whether it stays or goes; each is in one of the two lists.
struct RetentionPlan {
  std::vector<KeptStep> kept;
  std::vector<StepInfo> removed;
};

/// Facts about steps that their manifests do not have.
struct StepUse {
  std::set<std::uint64_t> in_use;   ///< Being saved or loaded.
  std::set<std::uint64_t> damaged;  ///< A load of them has failed.
  std::set<std::uint64_t> recent;   ///< Just committed, whatever its number.
};

/// Decides which of `steps`, sorted, are to be removed: those that `policy` does not keep.
///
/// Never removed, whatever it says: the newest; the newest that is not known to be damaged; what was just committed;
/// what is in use; what is pinned; what is damaged so that its manifest cannot be read, which the policy is not asked
/// about.
/// Errors: those of the policy; then nothing is decided.
[[nodiscard]] RetentionPlan plan_retention(const KeepPolicy& policy, std::span<const StepInfo> steps,
                                           CommitTime now, const StepUse& use = {});

}  // namespace cairn
