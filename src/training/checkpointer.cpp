// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/checkpointer.hpp"

#include <unistd.h>

#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/load.hpp"
#include "cairn/base/error.hpp"

#include "async/internal/thread_scope.hpp"
#include "base/internal/mutex.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"
#include "core/internal/disk_calls.hpp"
#include "training/checkpointer_state.hpp"
#include "training/step_load.hpp"
#include "training/step_uses.hpp"

namespace cairn {

using training::StepLoad;
using training::StepSave;
using training::StepUser;

namespace {

/// Returns what a save that has not ended waits for.
std::string words_of_unfinished(const StepSave& save) {
  try {
    static_cast<void>(save.response().wait(Timeout(std::chrono::nanoseconds(0))));
  } catch (const Error& error) {
    if (error.code() == Errc::still_running) {
      return error.detail();
    }
  } catch (...) {  // How it has ended is told elsewhere.
  }
  return "it ends just now";
}

/// Keeps what a thread that it would have to wait for is in the middle of: a function of the program's has ended the
/// Checkpointer that has called it, with the whole program perhaps (std::exit). That thread then does nothing more.
template <class State>
void leave_for_ever(std::shared_ptr<State> state) {
  static Mutex mutex;
  // Never destroyed: other threads may end after all that is.
  static auto& left CAIRN_GUARDED_BY(mutex) = *new std::vector<std::shared_ptr<State>>;
  const MutexLock lock(mutex);
  left.push_back(std::move(state));
}

}  // namespace

Checkpointer::OwnState::OwnState(std::shared_ptr<State> state)
    : state_(std::move(state)), process_(::getpid()) {}

Checkpointer::OwnState::~OwnState() {
  if (!is_own_process()) {
    // Its threads cannot be waited for here. It stays where a look for leaks finds it.
    static auto& left = *new std::vector<std::shared_ptr<State>>;
    left.push_back(std::move(state_));
  }
}

bool Checkpointer::OwnState::is_own_process() const noexcept {
  return ::getpid() == process_;
}

Checkpointer::State* Checkpointer::OwnState::operator->() const {
  return shared().get();
}

const std::shared_ptr<Checkpointer::State>& Checkpointer::OwnState::shared() const {
  if (!is_own_process()) {
    throw Error(
        Errc::closed,
        fmt::format("the Checkpointer of {} belongs to process {}, from which this one was forked: make "
                    "another one here, with a context of this process",
                    state_->given_root.string(), process_));
  }
  return state_;
}

Checkpointer::Checkpointer(std::filesystem::path root, CheckpointerOptions options, const Context& context)
    : state_(std::make_shared<State>(std::move(root), std::move(options), context)) {}

Checkpointer::~Checkpointer() {
  if (!state_.is_own_process()) {
    return;
  }
  try {
    close();
  } catch (...) {
    const auto& report = state_->context.options().on_lost_failure;
    if (report) {
      report(state_->directory.root().string(), std::current_exception());
    }
  }
  state_->remover.stop();
  if (const std::shared_ptr<StepSave> save = state_->in_flight()) {
    save->response().cancel();
  }
  if (state_->waits_for_itself()) {
    if (state_->removals.runs_here()) {
      coord::wait_with_progress(state_->coordinator(), state_->saves.idle());  // What is left runs here.
    }
    leave_for_ever(state_.shared());
    return;
  }
  state_->wait_idle();
  state_->looks.close();
  coord::wait_with_progress(state_->coordinator(), state_->looks.left());
}

bool Checkpointer::should_save(std::uint64_t step) const {
  state_->require_not_asking();
  return state_->decide(step, state_->time_of(step, {}, {}));
}

StepResponse Checkpointer::save(std::uint64_t step, const Checkpointables& items,
                                const StepOptions& options) {
  state_->require_not_asking();
  return state_->save(step, items, options);
}

PeriodReport Checkpointer::period(Timeout mtbf, Timeout restart) const {
  return state_->costs.report(mtbf, restart);
}

PeriodReport Checkpointer::period() const {
  return state_->costs.report(state_->options.save, state_->history.mtbf());
}

FailureHistory Checkpointer::failures() const {
  return state_->history.failures();
}

std::optional<Resumed> Checkpointer::resume(const Requests& requests, const ResumeOptions& options) {
  return state_->resume(requests, options);
}

Loaded Checkpointer::load(const WhichStep& which, const Requests& requests, const LoadOptions& options) {
  std::uint64_t step = 0;
  std::optional<StepUser> user;
  std::filesystem::path path;
  state_->prepare_load(options, [&] {
    step = state_->resolve(which);
    user.emplace(state_->remover.uses(), step);
    path = state_->path_of(step);
    state_->look_at_root(options.deadline);
  });
  try {
    return load_checkpointables(path, requests, state_->load_options(options), state_->context);
  } catch (...) {
    std::rethrow_exception(state_->judge_load(step, path, std::current_exception()));
  }
}

StepLoadResponse Checkpointer::load_async(const WhichStep& which, const Requests& requests,
                                          const LoadOptions& options) {
  std::filesystem::path path;
  std::shared_ptr<const StepLoad> load;
  state_->prepare_load(options, [&] {
    const std::uint64_t step = state_->resolve(which);
    path = state_->path_of(step);
    const std::weak_ptr<State> weak = state_.shared();
    StepLoad::Judge judge = [weak, step, path](const std::exception_ptr& failure) {
      const std::shared_ptr<State> state = weak.lock();
      return state ? state->judge_load(step, path, failure) : failure;
    };
    load = std::make_shared<const StepLoad>(state_->remover.uses(), step, core::DiskCalls(state_->context),
                                            std::move(judge));
    state_->look_at_root(options.deadline);
  });
  try {
    return {load_checkpointables_async(path, requests, state_->load_options(options), state_->context), load};
  } catch (...) {
    std::rethrow_exception(load->judge(std::current_exception()));
  }
}

CheckpointMetadata Checkpointer::metadata(const WhichStep& which) const {
  const std::uint64_t step = state_->resolve(which);
  const StepUser user(state_->remover.uses(), step);
  const std::filesystem::path path = state_->path_of(step);
  state_->look_at_root({});
  try {
    return checkpointables_metadata(path, state_->context);
  } catch (...) {
    std::rethrow_exception(state_->judge_load(step, path, std::current_exception()));
  }
}

StepInfo Checkpointer::info(const WhichStep& which) const {
  return state_->directory.info(state_->resolve(which));
}

std::vector<std::uint64_t> Checkpointer::steps() const {
  return *state_->directory.steps();
}

std::optional<std::uint64_t> Checkpointer::latest() const {
  return state_->directory.latest();
}

std::optional<std::uint64_t> Checkpointer::best(const std::string& metric, Prefer prefer) const {
  return state_->best(metric, prefer);
}

bool Checkpointer::is_preempted() const {
  return state_->ranks ? state_->ranks->is_preempted() : state_->has_answered_signal.load();
}

void Checkpointer::remove(std::uint64_t step) {
  if (!state_->is_primary()) {
    throw Error(Errc::invalid_argument,
                fmt::format("step {} of {}: of several ranks rank 0 alone removes steps", step,
                            state_->directory.root().string()));
  }
  state_->list_again([&] { state_->remover.remove(step); });
}

void Checkpointer::rewind(std::uint64_t step, const RewindOptions& options) {
  state_->rewind(step, false, options);
}

void Checkpointer::pin(std::uint64_t step) {
  const StepUser user(state_->remover.uses(), step);
  state_->directory.pin(step);
}

void Checkpointer::unpin(std::uint64_t step) {
  state_->directory.unpin(step);
}

void Checkpointer::reload() {
  state_->list_again([this] { state_->directory.reload(); });
  state_->note_own(state_->directory.latest());
}

void Checkpointer::wait() {
  state_->require_may_wait();
  state_->wait_idle();
  state_->throw_failures();
}

void Checkpointer::close() {
  close(state_->options.close_timeout);
}

void Checkpointer::close(Timeout timeout) {
  state_->require_may_wait();
  bool was_closed = false;
  {
    const MutexLock lock(state_->mutex);
    was_closed = std::exchange(state_->is_closed, true);
  }
  const std::string root = state_->directory.root().string();
  const auto end = later(state_->clock.steady_now(), timeout);
  if (!state_->wait_until_idle(state_->saves, end)) {
    if (const std::shared_ptr<StepSave> save = state_->in_flight()) {
      throw Error(Errc::still_running, fmt::format("step {} of {} is still being saved: {}", save->step(),
                                                   root, words_of_unfinished(*save)));
    }
    coord::wait_with_progress(
        state_->coordinator(),
        state_->saves.idle());  // It has ended: it posts its removals, which takes no time.
  }
  const auto await_removals = [&] {
    if (!state_->wait_until_idle(state_->removals, end)) {
      throw Error(Errc::still_running,
                  fmt::format("old steps of {} are still being removed: {}", root, state_->remover.doing()));
    }
  };
  await_removals();
  if (!was_closed && state_->remover.is_unfinished()) {
    state_->removals.post(
        [state = state_.shared().get()] { state->remove_old([state] { state->remover.finish(); }); });
    await_removals();
  }
  state_->throw_failures();
  if (std::uncaught_exceptions() <= state_->exceptions) {  // Else the program is about to fail.
    state_->enter_history(true);
  }
}

}  // namespace cairn
