// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/core/context.hpp"
#include "cairn/training/keep_policy.hpp"
#include "cairn/training/step_directory.hpp"
#include "cairn/training/step_options.hpp"

#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"
#include "io/internal/syscalls.hpp"
#include "training/internal/step_lines.hpp"
#include "training/step_links.hpp"
#include "training/step_uses.hpp"

namespace cairn::training {

class Rewinding;

/// The clock of a context.
[[nodiscard]] const Clock& clock_of(const Context& context);

/// The operating system, or what a context has in its place.
[[nodiscard]] io::Syscalls& syscalls_of(const Context& context);

/// Removes the steps that a policy does not keep.
///
/// Threads: `retain` by one thread at a time; the rest from any.
class Remover {
 public:
  /// The directory and the context must outlive it.
  Remover(KeepPolicy policy, LinkOptions links, Timeout removal_deadline, StepDirectory& directory,
          const Context& context);

  /// Lists, asks the policy, updates links and removes, in this order, after `just_saved` was committed: whatever is
  /// removed, a newer one is there. What cannot be removed is left for the next time, and does not keep others. Where
  /// something is to go, the manifests of all steps are read, each once, and that of what goes and of the newest
  /// again.
  ///
  /// Errors: those of the policy; then nothing is removed. The first failure of a removal.
  void retain(std::uint64_t just_saved);

  /// Returns whether the last `retain` has asked the policy in vain, or left something that is to go, or
  /// something was renamed away and is not removed.
  [[nodiscard]] bool is_unfinished() const;
  /// Tries that again.
  ///
  /// Threads: as `retain`.
  /// Errors:  as `retain`.
  void finish();

  /// Errors: Errc::invalid_argument: it is pinned, or in use; as remove_checkpoint.
  void remove(std::uint64_t step);

  /// Sets the steps above one aside, which need not be there where it `may_lie_elsewhere`; before that links lead to
  /// those that stay, and another line of steps has begun.
  ///
  /// Threads: not while `retain` runs.
  /// Errors: Errc::not_found: no such step. Errc::invalid_argument: a step above it is pinned, or in use. Those of the
  ///         links: nothing is moved. OS errors.
  void rewind(std::uint64_t step, bool may_lie_elsewhere = false);

  /// The lines of steps as the last `rewind` has left them; nothing where there was none, or no memory knows the root.
  [[nodiscard]] std::optional<StepLines> lines() const;

  /// Returns whether a step that is about to be saved below others would be there still once the next one is:
  /// asks the policy about the steps with both among them. Of the next one nothing is known but that it comes
  /// before the other steps. A policy that fails removes nothing. Neither those that are `uncounted` nor
  /// those that are damaged are shown to the policy.
  [[nodiscard]] bool would_last(std::uint64_t step, const Metrics& metrics,
                                const std::set<std::uint64_t>& uncounted);

  /// The step was saved, again perhaps, and `retain` will be called for it; until then none of another step removes it.
  void add_saved(std::uint64_t step);

  /// A load of the step has failed because it is damaged; or it was removed.
  void set_damaged(std::uint64_t step, bool is_damaged);
  [[nodiscard]] bool is_damaged(std::uint64_t step) const;

  /// Returns what `retain` waits for: for messages.
  [[nodiscard]] std::string doing() const;

  /// Nothing more is removed, and no link is made.
  void stop() noexcept { is_stopped_ = true; }

  [[nodiscard]] const std::string& policy_name() const noexcept { return policy_.name(); }
  [[nodiscard]] const std::shared_ptr<StepUses>& uses() const noexcept { return uses_; }

 private:
  /// False when it was pinned, or used, since the policy was asked; or `newer` is gone.
  bool try_remove(std::uint64_t step, std::optional<std::uint64_t> newer = std::nullopt);
  void set_aside_above(std::uint64_t step, Rewinding& rewinding);
  void note_removal(std::optional<std::uint64_t> step);
  void finish_removals();
  void tell_unmeasured(const std::vector<StepInfo>& steps);
  void set_unfinished(std::optional<std::uint64_t> just_saved);
  [[nodiscard]] RetentionPlan plan_removals(std::uint64_t just_saved, std::vector<StepInfo>& steps);
  [[nodiscard]] RetentionPlan ask_policy(const std::vector<StepInfo>& steps, const StepUse& use) const;
  void update_links(std::vector<StepInfo> steps, const RetentionPlan& plan);

  const KeepPolicy policy_;
  const Timeout removal_deadline_;
  StepDirectory& directory_;
  StepLinks links_;
  const Context& context_;
  const std::shared_ptr<StepUses> uses_;
  std::set<std::string> unmeasured_;  // Metrics that no step had so far, and of which nothing was said.
  std::atomic<bool> is_stopped_{false};
  mutable Mutex
      asking_;  // Held while the policy is asked: a program's own need not be ready for two threads.
  mutable Mutex mutex_;
  std::optional<std::uint64_t> removing_ CAIRN_GUARDED_BY(mutex_);
  std::set<std::uint64_t> damaged_ CAIRN_GUARDED_BY(mutex_);
  std::set<std::uint64_t> saved_ CAIRN_GUARDED_BY(mutex_);  // Those for which `retain` is still to be called.
  std::optional<StepLines> lines_ CAIRN_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> unfinished_
      CAIRN_GUARDED_BY(mutex_);  // The step after which a `retain` has failed.
};

}  // namespace cairn::training
