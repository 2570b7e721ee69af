// SPDX-License-Identifier: Apache-2.0
#include "training/internal/step_copies.hpp"

#include <algorithm>

#include "cairn/training/step_options.hpp"

#include "core/internal/disk_calls.hpp"
#include "core/internal/start.hpp"
#include "training/checkpointer_state.hpp"

namespace cairn::training {

StepCopies::StepCopies(Checkpointer& steps) : state_(*steps.state_.shared()) {
  if (state_.options.save.asks_time()) {
    state_.find_last_save();  // Now, not in a save, which does not wait for the disk.
  }
}

bool StepCopies::decide(std::uint64_t step, const StepOptions& how) {
  const PreemptionGuard* const guard = state_.options.preemption;
  const bool was_preempted = guard != nullptr && guard->is_preempted();
  state_.look_at_metrics(step, how.metrics);
  const bool is_due = state_.decide(step, state_.time_of(step, {}, {}), how.force);
  state_.has_answered_signal = state_.has_answered_signal || was_preempted;
  return is_due;
}

StepResponse StepCopies::save(std::uint64_t step, const Checkpointables& items, const StepOptions& how) {
  return state_.start(step, state_.saving_of(items), how, state_.clock.steady_now());
}

std::optional<std::uint64_t> StepCopies::newest(bool is_looked_at) const {
  const StepDirectory::Steps steps = state_.directory.steps();
  const auto newest = std::find_if(steps->rbegin(), steps->rend(), [&](std::uint64_t step) {
    return !state_.remover.is_damaged(step) && (!is_looked_at || state_.directory.info(step).problem.empty());
  });
  return newest == steps->rend() ? std::nullopt : std::optional(*newest);
}

void StepCopies::set_found(bool has_found) {
  state_.history.set_found(has_found);
}

void StepCopies::enter() {
  state_.enter_history(false);
}

void StepCopies::add_cost(std::chrono::nanoseconds duration) {
  constexpr int kSlowedPercent = 15;  // Of a program that computes on all cores meanwhile.
  state_.costs.add_blocking(duration * kSlowedPercent / 100);
}

void StepCopies::rewind(std::uint64_t step, bool may_lie_elsewhere) {
  state_.rewind(step, may_lie_elsewhere);
}

std::optional<StepLines> StepCopies::lines() const {
  return state_.remover.lines();
}

void StepCopies::plan(std::uint64_t step) {
  state_.plan_copy(step);
}

void StepCopies::drop_plan(std::uint64_t step) {
  state_.drop_plan(step);
}

StepResponse StepCopies::copy(std::uint64_t step, const std::filesystem::path& original,
                              const Context& context) {
  const Checkpointer::State::Begin begin = [&](const std::filesystem::path& path, const SaveOptions& save) {
    std::shared_ptr<core::Services> services = core::DiskCalls(context).services();
    AsyncResponse response = core::start_copy(original, path, save, context, core::Waiting::for_staged);
    return Checkpointer::State::Begun{std::move(response), std::move(services)};
  };
  return state_.start(step, begin, StepOptions(), state_.clock.steady_now());
}

}  // namespace cairn::training
