// SPDX-License-Identifier: Apache-2.0
#include "training/remover.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/maintain.hpp"
#include "cairn/base/error.hpp"

#include "core/internal/disk_calls.hpp"
#include "training/rewinding.hpp"
#include "training/root.hpp"

namespace cairn::training {
namespace {

constexpr std::size_t kRemovalsForAList = 1000;

std::size_t count_unreadable(const std::vector<StepInfo>& steps) {
  return static_cast<std::size_t>(
      std::count_if(steps.begin(), steps.end(), [](const StepInfo& each) { return !each.problem.empty(); }));
}

/// Adds the metrics by which a policy goes.
void add_metrics(const KeepPolicy& policy, std::set<std::string>& metrics) {
  if (!policy.metric().empty()) {
    metrics.insert(policy.metric());
  }
  for (const KeepPolicy& part : policy.parts()) {
    add_metrics(part, metrics);
  }
}

/// Returns the steps that stay so that the newest state can be loaded: the newest, and the newest that is not
/// known to be damaged.
std::set<std::uint64_t> newest_sound(const std::vector<StepInfo>& steps, const StepUse& use) {
  std::set<std::uint64_t> newest;
  for (auto each = steps.rbegin(); each != steps.rend(); ++each) {
    if (each->problem.empty()) {
      newest.insert(each->step);
      if (!use.damaged.contains(each->step)) {
        break;
      }
    }
  }
  return newest;
}

}  // namespace

const Clock& clock_of(const Context& context) {
  return context.options().clock ? *context.options().clock : system_clock();
}

io::Syscalls& syscalls_of(const Context& context) {
  const std::shared_ptr<io::Syscalls>& injected = context.options().syscalls;
  return injected ? *injected : io::posix_syscalls();
}

Remover::Remover(KeepPolicy policy, LinkOptions links, Timeout removal_deadline, StepDirectory& directory,
                 const Context& context)
    : policy_(std::move(policy)),
      removal_deadline_(removal_deadline),
      directory_(directory),
      links_(std::move(links), directory),
      context_(context),
      uses_(StepUses::of(directory.root(), context.options().syscalls.get())) {
  add_metrics(policy_, unmeasured_);
}

void Remover::retain(std::uint64_t just_saved) {
  if (is_stopped_) {
    return;
  }
  set_unfinished(just_saved);
  std::exception_ptr failure;
  const auto attempt = [&failure](const auto& work) {
    try {
      work();
      return true;
    } catch (...) {
      failure = failure ? failure : std::current_exception();
      return false;
    }
  };
  bool is_finished = attempt([&] { finish_removals(); });
  directory_.refresh();
  std::vector<StepInfo> steps = directory_.infos(policy_.reads_manifests() || links_.reads_manifests());
  tell_unmeasured(steps);
  const RetentionPlan plan = plan_removals(just_saved, steps);
  if (is_stopped_) {  // By the policy itself.
    return;
  }
  const auto sound =
      std::find_if(steps.rbegin(), steps.rend(), [](const StepInfo& each) { return each.problem.empty(); });
  const std::optional<std::uint64_t> newest =
      sound == steps.rend() ? std::nullopt : std::optional(sound->step);
  attempt([&] { update_links(std::move(steps), plan); });
  std::size_t removed = 0;
  for (const StepInfo& each : plan.removed) {
    if (is_stopped_) {
      break;
    }
    if (++removed % kRemovalsForAList == 0) {
      directory_.refresh();  // By what it has shown a removal knows what lies beside the step.
    }
    is_finished = attempt([&] { try_remove(each.step, newest); }) && is_finished;
  }
  if (is_finished) {
    set_unfinished(std::nullopt);
  }
  if (failure) {
    directory_.refresh();  // What could not be removed is still there.
    std::rethrow_exception(failure);
  }
}

/// Says of a metric that all of many steps lack that they are kept for ever, as they are where its name was mistyped.
void Remover::tell_unmeasured(const std::vector<StepInfo>& steps) {
  constexpr std::size_t kMany = 10;
  std::erase_if(unmeasured_, [&steps](const std::string& name) {
    return std::any_of(steps.begin(), steps.end(),
                       [&name](const StepInfo& step) { return step.metrics.contains(name); });
  });
  if (steps.size() < kMany) {
    return;
  }
  for (const std::string& name : std::exchange(unmeasured_, {})) {
    if (const auto& tell = context_.options().on_problem) {
      tell(directory_.root().string(),
           fmt::format("none of {} steps has the metric '{}' (StepOptions::metrics), without which '{}' "
                       "keeps them all",
                       steps.size(), name, policy_.name()));
    }
  }
}

bool Remover::is_unfinished() const {
  if (directory_.has_unfinished_removals()) {
    return true;
  }
  const MutexLock lock(mutex_);
  return unfinished_.has_value();
}

void Remover::set_unfinished(std::optional<std::uint64_t> just_saved) {
  const MutexLock lock(mutex_);
  unfinished_ = just_saved;
}

void Remover::finish() {
  std::optional<std::uint64_t> step;
  {
    const MutexLock lock(mutex_);
    step = unfinished_;
  }
  if (step) {
    retain(*step);
  } else {
    finish_removals();  // Those that somebody has asked for.
  }
}

void Remover::finish_removals() {
  if (!is_stopped_) {
    RemoveOptions options;
    options.deadline = removal_deadline_;
    directory_.finish_removals(options, context_);
  }
}

/// Asks the policy about `steps`, and again where the manifest turns out to be unreadable of a step that is to go, or
/// of one for whose sake others may: no policy may go by a step that nobody can load.
RetentionPlan Remover::plan_removals(std::uint64_t just_saved, std::vector<StepInfo>& steps) {
  StepUse use;
  use.in_use = uses_->in_use();
  {
    const MutexLock lock(mutex_);
    use.damaged = damaged_;
    use.recent = saved_;
    saved_.erase(just_saved);
  }
  use.recent.insert(just_saved);
  std::set<std::uint64_t> doubted;
  for (;;) {
    RetentionPlan plan = ask_policy(steps, use);
    if (plan.removed.empty() || is_stopped_) {
      return plan;
    }
    std::set<std::uint64_t> doubtful = newest_sound(steps, use);
    for (const StepInfo& each : plan.removed) {
      doubtful.insert(each.step);
    }
    for (const std::uint64_t step : doubtful) {
      if (doubted.insert(step).second) {
        directory_.doubt(step);
      }
    }
    const std::size_t unreadable = count_unreadable(steps);
    steps = directory_.infos();
    if (count_unreadable(steps) == unreadable) {
      return plan;
    }
  }
}

RetentionPlan Remover::ask_policy(const std::vector<StepInfo>& steps, const StepUse& use) const {
  const MutexLock lock(asking_);
  try {
    return plan_retention(policy_, steps, clock_of(context_).now(), use);
  } catch (...) {
    std::rethrow_exception(with_context(std::current_exception(), directory_.root().string()));
  }
}

/// None may lead to a step that goes.
void Remover::update_links(std::vector<StepInfo> steps, const RetentionPlan& plan) {
  std::set<std::uint64_t> removed;
  for (const StepInfo& each : plan.removed) {
    removed.insert(each.step);
  }
  const auto is_removed = [&removed](const StepInfo& each) { return removed.count(each.step) != 0; };
  steps.erase(std::remove_if(steps.begin(), steps.end(), is_removed), steps.end());
  links_.update(steps, core::DiskCalls(context_), removal_deadline_);
}

void Remover::note_removal(std::optional<std::uint64_t> step) {
  const MutexLock lock(mutex_);
  removing_ = step;
}

std::string Remover::doing() const {
  const MutexLock lock(mutex_);
  return removing_ ? fmt::format("the disk is slow to remove step {}", *removing_)
                   : "the disk, or the policy, is slow to say what is to go";
}

bool Remover::try_remove(std::uint64_t step, std::optional<std::uint64_t> newer) {
  const StepRemoval removal(*uses_, step);
  if (!removal.has_begun()) {
    return false;
  }
  note_removal(step);
  const std::shared_ptr<void> noted(nullptr, [this](std::nullptr_t) { note_removal(std::nullopt); });
  RemoveOptions options;
  options.deadline = removal_deadline_;
  try {
    if (!directory_.remove_unless_pinned(step, options, context_, newer)) {
      return false;
    }
  } catch (const Error&) {
    std::rethrow_exception(
        with_context(std::current_exception(), fmt::format("step {} was not removed", step)));
  }
  set_damaged(step, false);
  return true;
}

void Remover::remove(std::uint64_t step) {
  if (!directory_.has(step)) {
    throw Error(Errc::not_found, fmt::format("step {} of {}", step, directory_.root().string()));
  }
  try {
    if (!try_remove(step)) {
      throw Error(Errc::invalid_argument,
                  fmt::format("step {} of {} is pinned, or in use: being saved, loaded, copied or removed",
                              step, directory_.root().string()));
    }
  } catch (...) {
    directory_.refresh();
    throw;
  }
}

void Remover::rewind(std::uint64_t step, bool may_lie_elsewhere) {
  directory_.refresh();
  if (!may_lie_elsewhere && !directory_.has(step)) {
    throw Error(Errc::not_found, fmt::format("step {} of {}", step, directory_.root().string()));
  }
  Rewinding rewinding(step, directory_, *uses_);
  const std::optional<io::Directory> root = directory_.held_root()->open();
  const store::RandomSource& random = context_.options().random;
  const bool has_above = step < std::numeric_limits<std::uint64_t>::max();
  const std::optional<StepLines> before =
      root && has_above ? begin_line(*root, step + 1, random) : std::nullopt;
  try {
    set_aside_above(step, rewinding);
  } catch (...) {
    if (before) {
      before->write_back(*root, random);
    }
    throw;
  }
  const MutexLock lock(mutex_);
  if (before) {
    lines_ = before;
    lines_->begin(step + 1);
  }
  damaged_.erase(damaged_.upper_bound(step), damaged_.end());
  saved_.erase(saved_.upper_bound(step), saved_.end());
}

void Remover::set_aside_above(std::uint64_t step, Rewinding& rewinding) {
  if (rewinding.is_over()) {
    return;
  }
  std::vector<StepInfo> steps = directory_.infos(links_.reads_manifests());
  std::erase_if(steps, [step](const StepInfo& each) { return each.step > step; });
  links_.update(steps, core::DiskCalls(context_), removal_deadline_);
  rewinding.run(context_);
}

std::optional<StepLines> Remover::lines() const {
  const MutexLock lock(mutex_);
  return lines_;
}

bool Remover::would_last(std::uint64_t step, const Metrics& metrics,
                         const std::set<std::uint64_t>& uncounted) {
  directory_.refresh();
  std::vector<StepInfo> steps = directory_.infos();
  std::erase_if(steps, [&](const StepInfo& each) {
    return each.step == step || !each.problem.empty() || uncounted.contains(each.step) ||
           is_damaged(each.step);
  });
  auto above =
      std::find_if(steps.begin(), steps.end(), [step](const StepInfo& each) { return each.step > step; });
  if (above == steps.end()) {
    return true;
  }
  StepInfo next;
  next.step =
      above->step -
      1;  // As far from this one as it may be: policies that keep what is near to a number tell them apart.
  next.path = directory_.path(next.step);
  if (next.step != step) {
    above = steps.insert(above, std::move(next));
  }
  StepInfo own;
  own.step = step;
  own.path = directory_.path(step);
  own.committed = CommitTime(clock_of(context_).now());
  own.metrics = metrics;
  own.is_pinned = directory_.is_pinned(step);
  steps.insert(above, std::move(own));
  try {
    const RetentionPlan plan = ask_policy(steps, {});
    return std::none_of(plan.removed.begin(), plan.removed.end(),
                        [step](const StepInfo& each) { return each.step == step; });
  } catch (...) {  // It is asked again after the save, and whoever is concerned is told then.
    return true;
  }
}

bool Remover::is_damaged(std::uint64_t step) const {
  const MutexLock lock(mutex_);
  return damaged_.contains(step);
}

void Remover::add_saved(std::uint64_t step) {
  const MutexLock lock(mutex_);
  damaged_.erase(step);
  saved_.insert(step);
}

void Remover::set_damaged(std::uint64_t step, bool is_damaged) {
  const MutexLock lock(mutex_);
  if (is_damaged) {
    damaged_.insert(step);
  } else {
    damaged_.erase(step);
  }
}

}  // namespace cairn::training
