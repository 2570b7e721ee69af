// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/save.hpp"
#include "cairn/base/error.hpp"
#include "cairn/training/step_options.hpp"

#include "async/internal/thread_scope.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"
#include "core/internal/disk_calls.hpp"
#include "joint/internal/joint_save.hpp"
#include "training/checkpointer_state.hpp"
#include "training/internal/annotations.hpp"
#include "training/root.hpp"
#include "training/step_uses.hpp"

namespace cairn {

using training::StepSave;
using training::StepUser;

training::CallTime Checkpointer::State::time_of(std::uint64_t step, Timeout deadline,
                                                Timeout join_timeout) const {
  return {clock, given_root, step, deadline,
          join_timeout == join_timeout.zero() ? options.join_timeout : join_timeout};
}

bool Checkpointer::State::decide(std::uint64_t step, const training::CallTime& time, bool is_forced) {
  if (!ranks && is_forced) {
    return true;
  }
  StepDirectory::Steps steps;  // Holds what the moment shows.
  const SaveMoment moment = look(step, steps);
  try {
    return ranks ? ranks->decide(moment, is_forced, time) : options.save(moment);
  } catch (...) {
    std::rethrow_exception(with_context(std::current_exception(), directory.root().string()));
  }
}

/// From here on all ranks have decided to save, and the others wait for one that fails.
StepResponse Checkpointer::State::save(std::uint64_t step, const Checkpointables& items,
                                       const StepOptions& how) {
  const bool was_preempted = options.preemption != nullptr && options.preemption->is_preempted();
  bool is_due = !options.save.asks_time();  // Else a failure to decide is one of all ranks.
  has_joined = false;
  look_at_metrics(step, how.metrics);
  try {
    const training::CallTime time = time_of(step, how.save.deadline, how.save.join_timeout);
    is_due = decide(step, time, how.force);
    has_answered_signal = has_answered_signal || was_preempted;
    throw_earlier_failure(step, is_due);
    return is_due ? start(step, saving_of(items), how, time.begin()) : StepResponse();
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    if (ranks && is_due && !has_joined) {
      tell_others(step, failure);
    }
    if (ranks && is_due) {
      ranks->end_save(step, std::nullopt);
    }
    std::rethrow_exception(failure);
  }
}

/// A training whose loss is no number any more goes on for hours otherwise before anybody looks at it.
void Checkpointer::State::look_at_metrics(std::uint64_t step, const Metrics& metrics) {
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) {
      continue;
    }
    const MutexLock lock(mutex);
    if (odd_metrics.size() < training::kMostMetrics && odd_metrics.insert(name).second) {
      untold.push_back(fmt::format("metric '{}' is {} at step {}: it is kept, and is never the best", name,
                                   training::not_finite_text(value), step));
    }
  }
}

std::string Checkpointer::State::title_of(std::uint64_t step) const {
  return fmt::format("step {} of {}", step, given_root.string());
}

void Checkpointer::State::tell_others(std::uint64_t step, const std::exception_ptr& why) const noexcept {
  try {
    joint::JointSave(coordinator(), title_of(step)).fail(why);
  } catch (...) {  // The coordinator was closed, which tells them, too.
  }
}

/// Throws the failure of an earlier save that nobody was told of. When this save `is_due` on all ranks, it
/// calls it off for the others first: they have not failed. If they threw this failure at their next save,
/// ranks that ask for no response could fail each other's saves for ever.
void Checkpointer::State::throw_earlier_failure(std::uint64_t step, bool is_due) {
  const std::exception_ptr failure = take_save_failure(Tells::at_save);
  if (!failure) {
    return;
  }
  if (ranks && is_due) {
    has_joined = true;
    call_off(step, failure);
  }
  std::rethrow_exception(failure);
}

void Checkpointer::State::call_off(std::uint64_t step, const std::exception_ptr& why) const noexcept {
  try {
    const Error error(Errc::cancelled, fmt::format("rank {} was told of an earlier failure instead: {}",
                                                   coordinator().rank(), describe(why)));
    joint::JointSave(coordinator(), title_of(step)).call_off(error);
  } catch (...) {  // The coordinator was closed, which tells them, too.
  }
}

SaveMoment Checkpointer::State::look(std::uint64_t step, StepDirectory::Steps& steps) {
  if (options.save.asks_time()) {
    find_last_save();
  }
  SaveMoment moment;
  moment.step = step;
  const MutexLock lock(mutex);
  steps = announced;
  moment.steps = *steps;
  moment.is_saving = saving != nullptr;
  moment.is_preempted =
      options.preemption != nullptr && options.preemption->is_preempted() && !has_saved_preempted;
  if (options.save.asks_time()) {
    moment.now = clock.now();
    moment.costs = costs.costs();
    moment.costs.mtbf = history.mtbf();
    if (last_begin) {
      moment.since_last_save = clock.steady_now() - *last_begin;
    }
  }
  return moment;
}

/// Makes the list that policies see, so that none of the steps that they decline takes memory for it.
void Checkpointer::State::announce() {
  announced = directory.steps();
  for (const std::optional<std::uint64_t> step :
       {saving ? std::optional(saving->step()) : std::nullopt, planned}) {
    if (step && !std::binary_search(announced->begin(), announced->end(), *step)) {
      auto more = std::make_shared<std::vector<std::uint64_t>>(*announced);
      more->insert(std::upper_bound(more->begin(), more->end(), *step), *step);
      announced = std::move(more);
    }
  }
}

/// Policies see the step as one that is being saved.
void Checkpointer::State::plan_copy(std::uint64_t step) {
  const MutexLock lock(mutex);
  planned = step;
  last_begin = clock.steady_now();
  has_saved_preempted = options.preemption != nullptr && options.preemption->is_preempted();
  announce();
}

/// It is being saved here now, or never will be.
void Checkpointer::State::drop_plan(std::uint64_t step) {
  const MutexLock lock(mutex);
  if (planned == step) {
    planned.reset();
    announce();
  }
}

Checkpointer::State::Begin Checkpointer::State::saving_of(const Checkpointables& items) {
  return [this, &items](const std::filesystem::path& path, const SaveOptions& save) {
    std::shared_ptr<core::Services> services = core::DiskCalls(context).services();
    const TimePoint begin = clock.steady_now();
    AsyncResponse response = save_checkpointables_async(path, items, save, context);
    costs.add_blocking(clock.steady_now() - begin);
    return Begun{std::move(response), std::move(services)};
  };
}

/// Another look at the disk, by `look_again`, may change what policies see.
void Checkpointer::State::list_again(const std::function<void()>& look_again) {
  look_again();
  const MutexLock lock(mutex);
  announce();
}

/// The first save of a process may be due by that of an earlier one, which only the time of the day tells.
void Checkpointer::State::find_last_save() {
  {
    const MutexLock lock(mutex);
    if (std::exchange(is_last_looked_up, true) || last_begin) {
      return;
    }
  }
  const std::optional<std::uint64_t> latest = directory.latest();
  const std::optional<CommitTime> committed =
      latest ? directory.info(*latest).committed : std::optional<CommitTime>();
  if (committed) {
    const std::chrono::nanoseconds age = CommitTime(clock.now()) - *committed;
    const MutexLock lock(mutex);
    last_begin = clock.steady_now() - std::max(age, std::chrono::nanoseconds(0));
  }
}

std::shared_ptr<StepSave> Checkpointer::State::in_flight() const {
  const MutexLock lock(mutex);
  return saving;
}

void Checkpointer::State::require_open() const {
  const MutexLock lock(mutex);
  if (is_closed) {
    throw Error(Errc::closed, fmt::format("Checkpointer of {}", directory.root().string()));
  }
}

SaveOptions Checkpointer::State::save_options(std::uint64_t step, const StepOptions& how) const {
  SaveOptions save = how.save;
  if (save.join_timeout == save.join_timeout.zero()) {
    save.join_timeout = options.join_timeout;
  }
  try {
    save.annotations = training::annotate(how.save.annotations, step, how.metrics);
  } catch (...) {
    std::rethrow_exception(with_context(std::current_exception(), fmt::format("step {}", step)));
  }
  return save;
}

/// The commit asks again: a step may be pinned while it is saved once more.
void Checkpointer::State::keep_pinned(std::uint64_t step, SaveOptions& save) {
  save.before_replacing = [self = weak_from_this(), step, also = std::move(save.before_replacing)] {
    if (const std::shared_ptr<const State> state = self.lock()) {
      state->require_unpinned(step);
    }
    if (also) {
      also();
    }
  };
}

/// Returns how much of the deadline of a save is left: it counts from the call. Zero: there is none.
///
/// Errors: Errc::timed_out.
Timeout Checkpointer::State::time_left(std::uint64_t step, Timeout deadline, TimePoint called) const {
  if (deadline <= deadline.zero()) {
    return deadline;
  }
  const std::chrono::nanoseconds left = later(called, deadline) - clock.steady_now();
  if (left <= left.zero()) {
    throw Error(Errc::timed_out,
                fmt::format("step {} of {}: not saved after {:.3f} s", step, directory.root().string(),
                            std::chrono::duration<double>(deadline).count()));
  }
  return left;
}

/// Blocks until the save before has ended, and the removal of the same step: it is saved again after it was removed.
void Checkpointer::State::wait_for_earlier(std::uint64_t step, Timeout deadline, TimePoint called) {
  const auto wait_for = [&](const training::Worker& worker) {
    require_may_wait();
    if (deadline <= deadline.zero()) {
      coord::wait_with_progress(coordinator(), worker.idle());
      return;
    }
    while (!wait_until_idle(worker, later(called, deadline))) {
      static_cast<void>(time_left(step, deadline, called));
    }
  };
  if (in_flight()) {
    wait_for(saves);
  }
  throw_earlier_failure(step, true);  // It may have failed since the first look, and be in flight no more.
  if (remover.uses()->is_being_removed(step)) {
    wait_for(removals);
  }
}

/// The look may go on when the deadline has passed. It asks a policy of the program's, so the destructor waits for it.
void Checkpointer::State::make_way_in_time(std::uint64_t step, const StepOptions& how, TimePoint called) {
  const core::DiskCalls calls(context);
  std::function<void()> look = [this, visit = std::make_shared<async::Gate::Visit>(looks.try_enter()), step,
                                overwrite = how.save.overwrite, metrics = how.metrics,
                                is_checked = !is_saved_anyway(how)] {
    const async::ThreadScope scope(&looks);
    make_way(step, overwrite);
    if (is_checked) {
      require_lasting(step, metrics);
    }
  };
  calls.run(fmt::format("step {}: look at {}", step, directory.root().string()),
            time_left(step, how.save.deadline, called), std::move(look));
}

StepResponse Checkpointer::State::start(std::uint64_t step, const Begin& begin, const StepOptions& how,
                                        TimePoint called) {
  require_open();
  if (ranks && how.skip_if_busy) {
    throw Error(Errc::invalid_argument, "StepOptions::skip_if_busy is not supported with several ranks");
  }
  SaveOptions save = save_options(step, how);
  if (how.skip_if_busy && in_flight()) {
    return {};
  }
  wait_for_earlier(step, save.deadline, called);
  const std::filesystem::path path = directory.path(step);
  if (is_primary()) {
    make_way_in_time(step, how, called);
    keep_pinned(step, save);
    note_line(step, how);
  }
  auto user = std::make_unique<StepUser>(remover.uses(), step);
  saves.start();  // What can fail, does so before the others are waited for.
  removals.start();
  save.deadline = time_left(step, save.deadline, called);
  const TimePoint began = clock.steady_now();
  has_joined = true;
  Begun begun = begin(path, save);
  StepSave::OnEnd on_end = [self = weak_from_this()](StepSave& ended, const std::exception_ptr& failure) {
    if (const std::shared_ptr<State> state = self.lock()) {
      state->end(ended, failure);
    }
  };
  std::vector<std::string> problems;
  {
    const MutexLock lock(mutex);
    problems.swap(untold);
  }
  auto started = std::make_shared<StepSave>(step, std::move(begun.response), std::move(begun.services),
                                            std::move(user), std::move(problems), std::move(on_end));
  enter(started, began);
  return StepResponse(std::move(started));
}

void Checkpointer::State::enter(std::shared_ptr<StepSave> save, std::chrono::steady_clock::time_point begin) {
  {
    const MutexLock lock(mutex);
    saving = save;
    announce();
    last_begin = begin;
    has_saved_preempted = options.preemption != nullptr && options.preemption->is_preempted();
  }
  saves.post([this, save = std::move(save)] { finish(*save); });
}

/// On the thread that was the first to hear of the end.
void Checkpointer::State::end(StepSave& save, const std::exception_ptr& failure) {
  if (!failure) {
    directory.add(save.step());
    note_own(save.step());
    if (is_primary()) {
      remover.add_saved(save.step());
    }
  }
  std::chrono::nanoseconds duration{0};
  {
    const MutexLock lock(mutex);
    duration = clock.steady_now() - last_begin.value_or(clock.steady_now());
    if (!failure) {
      costs.add_durable(duration);
    } else {
      failed = saving;
      untold.insert(untold.begin(), save.problems().begin(), save.problems().end());
      save_failure = with_context(failure, fmt::format("step {}", save.step()));
      is_called_off = ranks && code_of(failure) == Errc::cancelled;
      has_saved_preempted = false;
    }
    saving = nullptr;
    announce();
  }
  if (ranks) {
    ranks->end_save(save.step(), failure ? std::nullopt : std::optional(duration));
  }
}

/// On the thread that waits for saves.
void Checkpointer::State::finish(StepSave& save) noexcept {
  if (!save.settle() || !is_primary()) {
    return;
  }
  try {
    removals.post([this, step = save.step()] { retain(step); });
  } catch (...) {  // No memory.
    const MutexLock lock(mutex);
    retention_failure = std::current_exception();
  }
}

/// On the thread that removes.
void Checkpointer::State::retain(std::uint64_t just_saved) noexcept {
  enter_history(false);
  remove_old([&] { remover.retain(just_saved); });
}

/// On the thread that removes; keeps or tells why what is to go could not be removed.
void Checkpointer::State::remove_old(const std::function<void()>& remove) noexcept {
  std::exception_ptr failure;
  try {
    list_again(remove);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure && options.on_retention_failure) {
    try {
      options.on_retention_failure(failure);
      return;
    } catch (...) {  // It has waited for this very thread, say.
      failure = std::current_exception();
    }
  }
  const MutexLock lock(mutex);
  retention_failure = failure && retention_failure ? retention_failure : failure;  // All was tried again.
}

/// How this program goes is no part of the history of another root.
void Checkpointer::State::enter_history(bool is_over) noexcept {
  if (!history.is_kept()) {
    return;  // A look at a disk that does not answer would keep `close` beyond its timeout.
  }
  try {
    directory.held_root()->require_same();
    history.enter(is_over);
  } catch (...) {  // What cannot be told is left out.
  }
}

/// Returns whether the calling thread is one without which a save or a removal does not end: one of its own
/// (the policies of what to keep and `on_retention_failure` are called there), or of the context's, where a
/// save is in flight.
bool Checkpointer::State::waits_for_itself() const {
  const std::shared_ptr<StepSave> save = in_flight();
  return is_asking_here() || (save && save->runs_here());
}

/// Returns whether the calling thread is in a policy of what to keep, or in `on_retention_failure`.
bool Checkpointer::State::is_asking_here() const {
  return saves.runs_here() || removals.runs_here() || async::ThreadScope::is_in(&looks);
}

/// Errors: Errc::invalid_argument.
void Checkpointer::State::require_not_asking() const {
  if (is_asking_here()) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("Checkpointer of {}: it saves nothing while it asks a policy of what to keep, or tells "
                    "why steps were not removed",
                    directory.root().string()));
  }
}

/// Errors: Errc::invalid_argument.
void Checkpointer::State::require_may_wait() const {
  if (waits_for_itself()) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("Checkpointer of {}: would deadlock: waited for on a thread of its own, or of its "
                    "context's",
                    directory.root().string()));
  }
}

/// Blocks until no save is in flight and nothing is to be removed.
void Checkpointer::State::wait_idle() const {
  coord::wait_with_progress(coordinator(), saves.idle());  // First: it has posted what is to be removed then.
  coord::wait_with_progress(coordinator(), removals.idle());
}

/// The same, as long as there is time.
///
/// Errors: Errc::timed_out.
void Checkpointer::State::wait_idle(const training::CallTime& time) const {
  for (const training::Worker* worker : {&saves, &removals}) {
    if (!wait_until_idle(*worker, time.end())) {
      time.give_up({});
    }
  }
}

/// Blocks until `worker` has nothing to do, or it is `end`. Returns which it was.
bool Checkpointer::State::wait_until_idle(const training::Worker& worker,
                                          std::chrono::steady_clock::time_point end) const {
  return coord::wait_with_progress_until(coordinator(), worker.idle(), end, clock);
}

/// The failure of a save that nobody was told of yet, if there is one.
std::exception_ptr Checkpointer::State::take_save_failure(Tells when) {
  std::shared_ptr<StepSave> save;
  std::exception_ptr failure;
  {
    const MutexLock lock(mutex);
    if (is_called_off && when == Tells::at_save) {
      return nullptr;
    }
    save = std::exchange(failed, nullptr);
    failure = std::exchange(save_failure, nullptr);
  }
  return save && !save->tell() ? failure : nullptr;
}

void Checkpointer::State::throw_failures() {
  if (const std::exception_ptr of_save = take_save_failure(Tells::at_end)) {
    std::rethrow_exception(of_save);
  }
  std::exception_ptr failure;
  {
    const MutexLock lock(mutex);
    failure = std::exchange(retention_failure, nullptr);
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace cairn
