// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/api/save.hpp"
#include "cairn/base/error.hpp"
#include "cairn/training/preemption_guard.hpp"

#include "core/internal/disk_calls.hpp"
#include "joint/internal/joint_save.hpp"
#include "training/checkpointer_state.hpp"
#include "training/internal/annotations.hpp"
#include "training/step_uses.hpp"

namespace cairn {

using training::StepSave;
using training::StepUser;

bool Checkpointer::State::decide(std::uint64_t step, bool is_forced) {
  if (!ranks && is_forced) {
    return true;
  }
  StepDirectory::Steps steps;  // Holds what the moment shows.
  const SaveMoment moment = look(step, steps);
  try {
    return ranks ? ranks->decide(moment, is_forced) : options.save(moment);
  } catch (...) {
    std::rethrow_exception(with_context(std::current_exception(), directory.root().string()));
  }
}

/// What is the same on all ranks is decided; the others wait for one that fails from here on. However it ends, they go by the same word on
/// what to save next.
StepResponse Checkpointer::State::save(std::uint64_t step, const Checkpointables& items,
                                       const StepOptions& how) {
  const bool was_preempted = options.preemption != nullptr && options.preemption->is_preempted();
  bool is_due = !options.save.asks_time();  // Else a failure to decide is one of all ranks.
  std::optional<std::uint64_t> number;
  has_joined = false;
  try {
    is_due = decide(step, how.force);
    if (ranks && is_due) {
      number = ranks->open_save(step);
    }
    has_answered_signal = has_answered_signal || was_preempted;
    throw_earlier_failure(is_due);
    return is_due ? start(step, items, how, number.value_or(0)) : StepResponse();
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    if (ranks && is_due && !has_joined) {
      tell_others(failure);
    }
    if (number) {
      ranks->end_save(*number, step, std::nullopt);
    }
    std::rethrow_exception(failure);
  }
}

void Checkpointer::State::tell_others(const std::exception_ptr& why) const noexcept {
  try {
    joint::JointSave(coordinator()).fail(why);
  } catch (...) {  // The coordinator was closed, which tells them, too.
  }
}

/// What an earlier save has failed with is told in place of this one, if that is due, and only here perhaps. So the others have not failed:
/// would they throw this at their next save, ranks that ask no response could fail each other's saves for ever.
void Checkpointer::State::throw_earlier_failure(bool is_due) {
  const std::exception_ptr failure = take_save_failure(Tells::at_save);
  if (!failure) {
    return;
  }
  if (ranks && is_due) {
    has_joined = true;
    call_off(failure);
  }
  std::rethrow_exception(failure);
}

void Checkpointer::State::call_off(const std::exception_ptr& why) const noexcept {
  try {
    const Error error(Errc::cancelled, fmt::format("rank {} was told of an earlier failure instead: {}",
                                                   coordinator().rank(), describe(why)));
    joint::JointSave(coordinator()).call_off(error);
  } catch (...) {  // The coordinator was closed, which tells them, too.
  }
}

/// Rank 0's word on the steps ahead goes with the save.
void Checkpointer::State::begin_on_ranks(std::uint64_t number, std::uint64_t step, SaveOptions& save) {
  StepDirectory::Steps steps;  // Holds what the moment shows.
  save.word = ranks->begin_save(number, look(step, steps));
  save.on_word = [self = weak_from_this(), number](std::string_view word) {
    if (const std::shared_ptr<State> state = self.lock()) {
      state->ranks->hear(number, word);
    }
  };
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
    moment.costs.mtbf = estimated_mtbf(history.failures());
    if (last_begin) {
      moment.since_last_save = clock.steady_now() - *last_begin;
    }
  }
  return moment;
}

/// Makes the list that policies see, so that none of the steps that they decline takes memory for it.
void Checkpointer::State::announce() {
  const StepDirectory::Steps listed = directory.steps();
  announced = listed;
  if (saving && !std::binary_search(listed->begin(), listed->end(), saving->step())) {
    auto more = std::make_shared<std::vector<std::uint64_t>>(*listed);
    more->insert(std::upper_bound(more->begin(), more->end(), saving->step()), saving->step());
    announced = std::move(more);
  }
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
  try {
    save.annotations = training::annotate(how.save.annotations, step, how.metrics);
  } catch (...) {
    std::rethrow_exception(with_context(std::current_exception(), fmt::format("step {}", step)));
  }
  return save;
}

StepResponse Checkpointer::State::start(std::uint64_t step, const Checkpointables& items,
                                        const StepOptions& how, std::uint64_t number) {
  require_open();
  if (ranks && how.skip_if_busy) {
    throw Error(Errc::invalid_argument, "StepOptions::skip_if_busy is not supported with several ranks");
  }
  SaveOptions save = save_options(step, how);
  if (const std::shared_ptr<StepSave> before = in_flight()) {
    if (how.skip_if_busy) {
      return {};
    }
    before->settle();
    throw_earlier_failure(true);
  }
  if (remover.uses()->is_being_removed(step)) {
    removals.wait_idle();  // It is saved again: after it was removed.
  }
  const std::filesystem::path path = directory.path(step);
  if (is_primary()) {
    make_way(step, save.overwrite);
  }
  auto user = std::make_unique<StepUser>(remover.uses(), step);
  saves.start();  // What can fail, does so before the others are waited for.
  removals.start();
  if (ranks) {
    begin_on_ranks(number, step, save);
  }
  const auto begin = clock.steady_now();
  has_joined = true;
  AsyncResponse response = save_checkpointables_async(path, items, save, context);
  costs.add_blocking(clock.steady_now() - begin);
  StepSave::OnEnd on_end = [self = weak_from_this(), number](StepSave& ended,
                                                             const std::exception_ptr& failure) {
    if (const std::shared_ptr<State> state = self.lock()) {
      state->end(ended, number, failure);
    }
  };
  auto started = std::make_shared<StepSave>(step, std::move(response), core::DiskCalls(context).services(),
                                            std::move(user), std::move(on_end));
  enter(started, begin);
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
void Checkpointer::State::end(StepSave& save, std::uint64_t number, const std::exception_ptr& failure) {
  if (!failure) {
    directory.add(save.step());
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
      save_failure = with_context(failure, fmt::format("step {}", save.step()));
      is_called_off = ranks && code_of(failure) == Errc::cancelled;
      has_saved_preempted = false;
    }
    saving = nullptr;
    announce();
  }
  if (ranks) {  // Without the lock: it may speak to them.
    ranks->end_save(number, save.step(), failure ? std::nullopt : std::optional(duration));
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
  history.enter(false);
  std::exception_ptr failure;
  try {
    list_again([&] { remover.retain(just_saved); });
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure && options.on_retention_failure) {
    options.on_retention_failure(failure);
    return;
  }
  const MutexLock lock(mutex);
  retention_failure = failure && retention_failure ? retention_failure : failure;  // All was tried again.
}

/// Blocks until no save is in flight and nothing is to be removed.
void Checkpointer::State::wait_idle() {
  saves.wait_idle();  // First: it has posted what is to be removed then.
  removals.wait_idle();
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
