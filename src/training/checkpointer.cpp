// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/checkpointer.hpp"

#include <system_error>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cairn/api/find.hpp"
#include "cairn/api/load.hpp"
#include "cairn/api/maintain.hpp"
#include "cairn/api/save.hpp"
#include "cairn/base/error.hpp"
#include "cairn/training/preemption_guard.hpp"

#include "base/internal/clock.hpp"
#include "core/internal/load_latest.hpp"
#include "training/internal/annotations.hpp"
#include "training/remover.hpp"
#include "training/step_save.hpp"
#include "training/step_uses.hpp"
#include "training/worker.hpp"

namespace cairn {

using training::StepSave;
using training::StepUser;

struct Checkpointer::State : std::enable_shared_from_this<Checkpointer::State> {
  State(std::filesystem::path root, CheckpointerOptions how, const Context& where)
      : options(std::move(how)),
        context(where),
        clock(training::clock_of(where)),
        directory(std::move(root), options.names, where),
        remover(options.keep, options.close_timeout, directory, where),
        worker(clock) {
    announce();  // Nobody else is here yet.
  }

  // Saves.
  [[nodiscard]] bool decide(std::uint64_t step);
  [[nodiscard]] SaveMoment look(std::uint64_t step, StepDirectory::Steps& steps);
  void find_last_save();
  void announce();
  void list_again(const std::function<void()>& look_again);
  StepResponse start(std::uint64_t step, const Checkpointables& items, const StepOptions& how);
  [[nodiscard]] std::shared_ptr<StepSave> in_flight() const;
  [[nodiscard]] SaveOptions save_options(std::uint64_t step, const StepOptions& how) const;
  void enter(std::shared_ptr<StepSave> save, std::chrono::steady_clock::time_point begin);
  void end(StepSave& save, const std::exception_ptr& failure);
  void finish(StepSave& save) noexcept;
  void throw_save_failure();
  void throw_failures();
  void require_open() const;

  // Loads.
  [[nodiscard]] std::uint64_t resolve(const WhichStep& which) const;
  [[nodiscard]] std::optional<std::uint64_t> best(const std::string& metric, Prefer prefer) const;
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t step) const;
  [[noreturn]] void throw_load_failure(std::uint64_t step, const std::filesystem::path& path);
  std::optional<Resumed> resume(const Requests& requests, const ResumeOptions& how);

  const CheckpointerOptions options;
  const Context& context;
  const Clock& clock;
  StepDirectory directory;
  training::Remover remover;

  mutable std::mutex mutex;  // Protects all up to the worker.
  std::shared_ptr<StepSave> saving;
  std::shared_ptr<StepSave> failed;  // A save of whose failure nobody was told yet.
  std::exception_ptr save_failure;
  std::exception_ptr retention_failure;
  bool is_closed = false;
  bool has_saved_preempted = false;                                 // A save has begun since the preemption.
  std::optional<std::chrono::steady_clock::time_point> last_begin;  // Of a save, also of an earlier process.
  bool is_last_looked_up = false;
  StepDirectory::Steps announced;  // Those in the directory, and the one that is being saved.

  training::Worker worker;  // First to stop: it uses all above.
};

// Saves.

bool Checkpointer::State::decide(std::uint64_t step) {
  StepDirectory::Steps steps;  // Holds what the moment shows.
  return options.save(look(step, steps));
}

SaveMoment Checkpointer::State::look(std::uint64_t step, StepDirectory::Steps& steps) {
  if (options.save.asks_time()) {
    find_last_save();
  }
  SaveMoment moment;
  moment.step = step;
  const std::lock_guard lock(mutex);
  steps = announced;
  moment.steps = *steps;
  moment.is_saving = saving != nullptr;
  moment.is_preempted =
      options.preemption != nullptr && options.preemption->is_preempted() && !has_saved_preempted;
  if (options.save.asks_time()) {
    moment.now = clock.now();
    if (last_begin) {
      moment.since_last_save = clock.steady_now() - *last_begin;
    }
  }
  return moment;
}

/// Makes the list that policies see, so that none of the steps that they decline takes memory for it. Called with the lock held.
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
  const std::lock_guard lock(mutex);
  announce();
}

/// The first save of a process may be due by that of an earlier one, which only the time of the day tells.
void Checkpointer::State::find_last_save() {
  {
    const std::lock_guard lock(mutex);
    if (std::exchange(is_last_looked_up, true) || last_begin) {
      return;
    }
  }
  const std::optional<std::uint64_t> latest = directory.latest();
  const std::optional<CommitTime> committed =
      latest ? directory.info(*latest).committed : std::optional<CommitTime>();
  if (committed) {
    const std::chrono::nanoseconds age = CommitTime(clock.now()) - *committed;
    const std::lock_guard lock(mutex);
    last_begin = clock.steady_now() - std::max(age, std::chrono::nanoseconds(0));
  }
}

std::shared_ptr<StepSave> Checkpointer::State::in_flight() const {
  const std::lock_guard lock(mutex);
  return saving;
}

void Checkpointer::State::require_open() const {
  const std::lock_guard lock(mutex);
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
                                        const StepOptions& how) {
  require_open();
  const SaveOptions save = save_options(step, how);
  if (const std::shared_ptr<StepSave> before = in_flight()) {
    if (how.skip_if_busy) {
      return {};
    }
    before->settle();
    throw_save_failure();
  }
  if (remover.uses()->is_being_removed(step)) {
    worker.wait_idle();  // It is saved again: after it was removed.
  }
  const std::filesystem::path path = directory.path(step);
  if (directory.has(step) && !save.overwrite) {
    throw Error(Errc::already_exists, fmt::format("step {} is there: {}", step, path.string()));
  }
  auto user = std::make_unique<StepUser>(remover.uses(), step);
  const auto begin = clock.steady_now();
  AsyncResponse response = save_checkpointables_async(path, items, save, context);
  StepSave::OnEnd on_end = [self = weak_from_this()](StepSave& ended, const std::exception_ptr& failure) {
    if (const std::shared_ptr<State> state = self.lock()) {
      state->end(ended, failure);
    }
  };
  auto started = std::make_shared<StepSave>(step, std::move(response), std::move(user), std::move(on_end));
  enter(started, begin);
  return StepResponse(std::move(started));
}

void Checkpointer::State::enter(std::shared_ptr<StepSave> save, std::chrono::steady_clock::time_point begin) {
  {
    const std::lock_guard lock(mutex);
    saving = save;
    announce();
    last_begin = begin;
    has_saved_preempted = options.preemption != nullptr && options.preemption->is_preempted();
  }
  worker.post([this, save = std::move(save)] { finish(*save); });
}

/// On the thread that was the first to hear of the end.
void Checkpointer::State::end(StepSave& save, const std::exception_ptr& failure) {
  if (!failure) {
    directory.add(save.step());
    remover.set_damaged(save.step(), false);
  }
  const std::lock_guard lock(mutex);
  if (failure) {
    failed = saving;
    save_failure = with_context(failure, fmt::format("step {}", save.step()));
  }
  saving = nullptr;
  announce();
}

/// On the worker.
void Checkpointer::State::finish(StepSave& save) noexcept {
  if (!save.settle()) {
    return;
  }
  try {
    list_again([&] { remover.retain(save.step()); });
  } catch (...) {
    if (options.on_retention_failure) {
      options.on_retention_failure(std::current_exception());
      return;
    }
    const std::lock_guard lock(mutex);
    retention_failure = retention_failure ? retention_failure : std::current_exception();
  }
}

void Checkpointer::State::throw_save_failure() {
  std::shared_ptr<StepSave> save;
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex);
    save = std::exchange(failed, nullptr);
    failure = std::exchange(save_failure, nullptr);
  }
  if (save && !save->tell()) {
    std::rethrow_exception(failure);
  }
}

void Checkpointer::State::throw_failures() {
  throw_save_failure();
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex);
    failure = std::exchange(retention_failure, nullptr);
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

// Loads.

std::optional<std::uint64_t> Checkpointer::State::best(const std::string& metric, Prefer prefer) const {
  const std::vector<StepInfo> steps = directory.infos();
  const KeepPolicy policy = keep::best(metric, 1, prefer, Unmeasured::drop);
  const std::vector<bool> is_best = policy(steps, CommitTime());
  const auto found = std::find(is_best.begin(), is_best.end(), true);
  if (found == is_best.end()) {
    return std::nullopt;
  }
  return steps[static_cast<std::size_t>(found - is_best.begin())].step;
}

std::uint64_t Checkpointer::State::resolve(const WhichStep& which) const {
  if (const auto* step = std::get_if<std::uint64_t>(&which.get())) {
    return *step;
  }
  const auto* wanted = std::get_if<WhichStep::Best>(&which.get());
  const std::optional<std::uint64_t> step =
      wanted != nullptr ? best(wanted->metric, wanted->prefer) : directory.latest();
  if (!step) {
    throw Error(Errc::not_found, fmt::format("{}: there is no step", directory.root().string()));
  }
  return *step;
}

std::filesystem::path Checkpointer::State::path_of(std::uint64_t step) const {
  if (!directory.has(step)) {
    const std::optional<std::uint64_t> latest = directory.latest();
    throw Error(Errc::not_found,
                fmt::format("step {} of {}{}", step, directory.root().string(),
                            latest ? fmt::format(", the latest of which is {}", *latest) : ""));
  }
  return directory.path(step);
}

/// Rethrows what a load has thrown, and learns from it.
void Checkpointer::State::throw_load_failure(std::uint64_t step, const std::filesystem::path& path) {
  const std::exception_ptr failure = std::current_exception();
  const std::optional<std::error_code> code = code_of(failure);
  std::error_code ignored;
  if (code == make_error_code(Errc::not_found) && !std::filesystem::exists(path, ignored) && !ignored) {
    throw Error(Errc::not_found, fmt::format("step {} was removed meanwhile: {}", step, path.string()));
  }
  if (code && training::is_damage(*code)) {
    remover.set_damaged(step, true);
  }
  std::rethrow_exception(failure);
}

std::optional<Resumed> Checkpointer::State::resume(const Requests& requests, const ResumeOptions& how) {
  if (how.recover && !core::is_yet_to_be_made(directory.root())) {
    recover(directory.root(), how.recovery, context);
  }
  list_again([this] { directory.reload(); });
  LoadLatestOptions latest;
  latest.load = how.load;
  latest.fall_back = how.fall_back;
  latest.number = [this](std::string_view name) { return directory.parse(name); };
  std::optional<LoadedLatest> loaded;
  try {
    loaded = load_latest(directory.root(), requests, latest, context);
  } catch (const Error& error) {
    const std::optional<std::uint64_t> newest = directory.latest();
    if (newest && training::is_damage(error.code())) {
      remover.set_damaged(*newest, true);
    }
    throw;
  }
  if (!loaded) {
    return std::nullopt;
  }
  for (const PassedOver& each : loaded->passed_over) {
    if (const std::optional<std::uint64_t> step = directory.parse(each.path.filename().string())) {
      remover.set_damaged(*step, true);
    }
  }
  Resumed resumed;
  resumed.step = *directory.parse(loaded->checkpoint.name);
  resumed.loaded = std::move(loaded->loaded);
  resumed.passed_over = std::move(loaded->passed_over);
  return resumed;
}

// What users call.

Checkpointer::Checkpointer(std::filesystem::path root, CheckpointerOptions options, const Context& context)
    : state_(std::make_shared<State>(std::move(root), std::move(options), context)) {}

Checkpointer::~Checkpointer() {
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
  state_->worker.wait_idle();
}

bool Checkpointer::should_save(std::uint64_t step) const {
  return state_->decide(step);
}

StepResponse Checkpointer::save(std::uint64_t step, const Checkpointables& items,
                                const StepOptions& options) {
  state_->throw_save_failure();
  if (!options.force && !state_->decide(step)) {
    return {};
  }
  return state_->start(step, items, options);
}

std::optional<Resumed> Checkpointer::resume(const Requests& requests, const ResumeOptions& options) {
  return state_->resume(requests, options);
}

Loaded Checkpointer::load(const WhichStep& which, const Requests& requests, const LoadOptions& options) {
  const std::uint64_t step = state_->resolve(which);
  const StepUser user(state_->remover.uses(), step);
  const std::filesystem::path path = state_->path_of(step);
  try {
    return load_checkpointables(path, requests, options, state_->context);
  } catch (...) {
    state_->throw_load_failure(step, path);
  }
}

StepLoadResponse Checkpointer::load_async(const WhichStep& which, const Requests& requests,
                                          const LoadOptions& options) {
  const std::uint64_t step = state_->resolve(which);
  auto user = std::make_shared<const StepUser>(state_->remover.uses(), step);
  const std::filesystem::path path = state_->path_of(step);
  try {
    return {load_checkpointables_async(path, requests, options, state_->context), std::move(user)};
  } catch (...) {
    state_->throw_load_failure(step, path);
  }
}

CheckpointMetadata Checkpointer::metadata(const WhichStep& which) const {
  const std::uint64_t step = state_->resolve(which);
  return checkpointables_metadata(state_->path_of(step), state_->context);
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

void Checkpointer::remove(std::uint64_t step) {
  state_->list_again([&] { state_->remover.remove(step); });
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
}

void Checkpointer::wait() {
  state_->worker.wait_idle();
  state_->throw_failures();
}

void Checkpointer::close() {
  close(state_->options.close_timeout);
}

void Checkpointer::close(Timeout timeout) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_closed = true;
  }
  if (!state_->worker.wait_idle(timeout)) {
    const std::shared_ptr<StepSave> save = state_->in_flight();
    const std::string root = state_->directory.root().string();
    throw Error(Errc::still_running,
                save ? fmt::format("step {} of {} is still being saved", save->step(), root)
                     : fmt::format("old steps of {} are still being removed", root));
  }
  state_->throw_failures();
}

}  // namespace cairn
