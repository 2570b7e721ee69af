// SPDX-License-Identifier: Apache-2.0
// Going back to an earlier step, and saving below later ones.
#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "training/checkpointer_state.hpp"
#include "training/rank_resume.hpp"

namespace cairn {

void Checkpointer::State::rewind(std::uint64_t step, bool may_lie_elsewhere, const RewindOptions& how) {
  require_may_wait();
  const training::CallTime time = time_of(step, how.deadline, {});
  if (ranks) {
    training::RankRewind rank;
    rank.prepare = [&] { wait_idle(time); };
    rank.find_objection = [&] { return find_use_above(step); };
    rank.work = [&] { rewind_here(step, may_lie_elsewhere); };
    training::rewind_together(coordinator(), step, rank, time);
    ranks->go_back();
  } else {
    wait_idle(time);
    rewind_here(step, may_lie_elsewhere);
  }
  if (!is_primary()) {
    list_again([this] { directory.reload(); });  // As rank 0 has left it.
  }
  has_rewound = true;
}

/// Where it fails half way, policies see the steps that are left.
void Checkpointer::State::rewind_here(std::uint64_t step, bool may_lie_elsewhere) {
  std::exception_ptr failure;
  list_again([&] {
    try {
      remover.rewind(step, may_lie_elsewhere);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  if (failure) {
    std::rethrow_exception(failure);
  }
}

/// Returns what keeps rank 0, which sees only its own uses, from moving steps away; empty when nothing on
/// this rank does.
std::string Checkpointer::State::find_use_above(std::uint64_t step) const {
  const std::set<std::uint64_t> in_use = remover.uses()->in_use();
  const auto above = in_use.upper_bound(step);
  return is_primary() || above == in_use.end()
             ? ""
             : fmt::format("rank {}: step {} is being saved or loaded", coordinator().rank(), *above);
}

/// Refuses a step below others that would be gone as soon as the next one is saved: the program has gone back, and the
/// steps of the line that it has given up stay the newest for the policy, and for whoever resumes.
void Checkpointer::State::require_lasting(std::uint64_t step, const Metrics& metrics) {
  const StepDirectory::Steps listed = directory.steps();
  if (listed->empty() || listed->back() <= step || has_rewound || remover.is_damaged(step) ||
      removals.runs_here()) {
    return;
  }
  std::set<std::uint64_t> ignored;
  {
    const MutexLock lock(mutex);
    ignored = uncounted;
  }
  bool lasts = false;
  list_again([&] { lasts = remover.would_last(step, metrics, ignored); });
  if (lasts) {
    return;
  }
  const std::string refusal = fmt::format(
      "step {} of {} would be removed once the next one is saved: '{}' keeps later steps, up to {}", step,
      directory.root().string(), remover.policy_name(), listed->back());
  if (is_of_another_program(listed->back())) {
    throw Error(
        Errc::invalid_argument,
        fmt::format(
            "{}, which another program has saved since this one began: give each program a root of its "
            "own; StepOptions::force saves this step all the same",
            refusal));
  }
  const auto below = std::lower_bound(listed->begin(), listed->end(), step);
  const std::string last = below == listed->begin() ? "" : fmt::format("({})", *std::prev(below));
  throw Error(
      Errc::invalid_argument,
      fmt::format(
          "{}; Checkpointer::rewind{} sets them aside, StepOptions::force saves this one all the same",
          refusal, last));
}

bool Checkpointer::State::is_of_another_program(std::uint64_t step) const {
  const MutexLock lock(mutex);
  return !highest_own || *highest_own < step;
}

void Checkpointer::State::note_own(std::optional<std::uint64_t> step) {
  const MutexLock lock(mutex);
  highest_own = std::max(highest_own, step);
}

/// Returns whether a step is to be saved whatever becomes of it: it was forced, or the program is about to
/// end.
bool Checkpointer::State::is_saved_anyway(const StepOptions& how) const {
  return how.force || (options.preemption != nullptr && options.preemption->is_preempted()) ||
         (ranks && ranks->is_preempted());
}

/// Remembers which steps are no part of the line that the policy of what to save makes, for as long as they are there.
void Checkpointer::State::note_line(std::uint64_t step, const StepOptions& how) {
  const bool is_uncounted = is_saved_anyway(how);
  const MutexLock lock(mutex);
  std::erase_if(uncounted, [&](std::uint64_t each) { return each == step || !directory.has(each); });
  if (is_uncounted) {
    uncounted.insert(step);
  }
}

}  // namespace cairn
