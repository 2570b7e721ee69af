// SPDX-License-Identifier: Apache-2.0
#include "core/save_job.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/async/require.hpp"

#include "async/internal/suspend.hpp"
#include "core/drop_later.hpp"
#include "store/internal/assembly.hpp"
#include "store/internal/checkpointable_names.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/other_files.hpp"
#include "store/internal/timestamp.hpp"

namespace cairn::core {
namespace {

/// Others hold a checkpoint while they pin it, or until its removal has begun: a moment, but on a slow disk.
constexpr std::chrono::milliseconds kLookAtLock{1};
constexpr std::chrono::seconds kMaxWait{10};

std::string title_of(const SaveJob::Plan& plan) {
  return plan.copied.empty() ? fmt::format("save of {}", plan.path.string())
                             : fmt::format("copy of {} to {}", plan.copied.string(), plan.path.string());
}

/// "'point' (handler example.point/1)": who failed, for messages.
std::string who(const SaveItem& item) {
  return fmt::format("'{}' (handler {})", item.checkpointable.name(), item.handler_id);
}

}  // namespace

SaveItem::SaveItem(Checkpointable what, Registration whose)
    : checkpointable(std::move(what)),
      registration(std::move(whose)),
      handler_id(registration.handler->id()),
      directory(store::directory_of(checkpointable.name())) {}

SaveJob::SaveJob(std::shared_ptr<Services> services, Plan plan, observe::Meter::TimePoint begin)
    : Operation(std::move(services), title_of(plan), begin, plan.options.trace, plan.kind),
      path_(std::move(plan.path)),
      items_(std::move(plan.items)),
      options_(std::move(plan.options)),
      uses_(options_.handler_options.begin_uses()),
      joint_(std::move(plan.joint)),
      checks_(HandlerChecks::make(this->services().options, options_.snapshot, items_.size())),
      copied_(std::move(plan.copied)),
      started_at_(store::utc(this->services().clock.now())),
      uuid_(joint_ ? joint_->uuid() : store::make_uuid(this->services().options.random)) {
  plane().yields = !plan.is_waited_for;
  plane().copies_yield = plan.kind.blocking == BlockingPhase::by_context && !plan.is_waited_for;
  if (!is_primary()) {
    options_.coalesce = false;  // Rank 0 decides what yields.
  }
}

SaveJob::~SaveJob() {
  if (joint_) {
    joint_->stop_listening();
  }
  if (staged_) {
    drop_later(services_owner(), std::move(staged_));
  }
  if (target_) {
    drop_later(services_owner(), std::move(target_));
  }
  if (original_) {
    drop_later(services_owner(), std::move(original_));
  }
}

void SaveJob::start() {
  try {
    // A caller that waits until it is accepted must also be told when it was given up before.
    answered().on_complete(
        [accepted = accepted_](const std::exception_ptr& failure) { accepted.complete(failure); });
    if (joint_) {
      joint_->on_failure([this](const std::exception_ptr& why) { take_peer_failure(why); });
    }
    launch(work(), options_.deadline);
  } catch (...) {
    if (joint_) {
      joint_->fail(std::current_exception());
    }
    services().metrics.fail_save(std::current_exception());
    throw;
  }
}

Awaitable<async::Event> SaveJob::take_ticket() {
  bool is_there = false;
  std::function<void()> look = [&] {
    io::Syscalls& syscalls = services().disk.engine().syscalls();
    // Whether its name is free is for rank 0 to say.
    if (is_copy()) {
      is_there = !look_for_copy();
    } else if (is_primary()) {
      target_ =
          services().checkpoint_store().look(syscalls, path_, options_.overwrite, options_.create_parents);
    } else {
      target_ = services().checkpoint_store().find(syscalls, path_, options_.create_parents);
    }
    is_in_memory_ = target_ && target_->is_in_memory();
  };
  co_await run_call(std::move(look));
  meter().end_step(Step::resolve);
  if (is_stopped()) {  // Others must not yield to a save that was stopped before it had a ticket.
    throw Error(Errc::cancelled, title());
  }
  if (is_there) {
    accepted_.set();
    co_return async::Event();
  }
  const std::shared_ptr<SaveJob> self = std::static_pointer_cast<SaveJob>(shared_from_this());
  SaveQueue::Entered entered;
  const std::function<void()> enter_queue = [&] {
    // Only rank 0 is certain to know the directory now. The others need it for nothing: their saves do not coalesce.
    entered = services().saves.enter(self, target_ ? target_->directory() : io::FileId());
  };
  if (is_primary()) {
    // Both in one step: two saves that had opposite orders in the two queues would wait for each other for ever.
    ticket_ = store::PublicationOrder::enter(store::PublicationOrder::of_process(), target_->directory(),
                                             target_->name(), enter_queue);
  } else {
    enter_queue();
  }
  for (const std::shared_ptr<SaveJob>& earlier : entered.passed) {
    if (earlier) {
      earlier->yield_to(*this);
    }
  }
  accepted_.set();
  co_return entered.turn;
}

Awaitable<> SaveJob::work() {
  std::exception_ptr failure;
  try {
    const async::Event turn = co_await take_ticket();
    if (!target_ && is_copy()) {  // The same checkpoint is there.
      mark_prepared();
      co_return;
    }
    co_await turn.wait();
    // On the strand of the helpers: the directory is made while handlers copy.
    helpers().spawn(create_directory(std::static_pointer_cast<SaveJob>(shared_from_this())));
    if (joint_) {
      helpers().spawn(agree(std::static_pointer_cast<SaveJob>(shared_from_this())));
    }
    Backgrounds backgrounds(items_.size());
    co_await stage_all(&backgrounds);
    mark_prepared();
    co_await leave_caller();  // What follows must not run on the caller's thread.
    co_await created_.wait();
    Awaitable<> finish = is_copy() ? copy_all() : finish_all(&backgrounds);
    co_await std::move(finish);
    if (is_primary()) {
      if (joint_) {
        co_await collect_votes();
      }
      co_await ticket_->turn().wait();
    } else {
      co_await take_part();
    }
    // In one call with the trace: a cancellation between them would fail a save that has committed.
    std::function<void()> publish_and_close = [this] {
      if (is_primary()) {
        publish();
      }
      add_problem(stats().deliver_trace());
      close_directory();
    };
    co_await run_call(std::move(publish_and_close));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    // A save that was cancelled cleans up as well: from here on no co_await throws because of it.
    co_await boost::asio::this_coro::throw_if_cancelled(false);
    Awaitable<> end = end_after(std::move(failure));
    co_await std::move(end);
  }
}

Awaitable<> SaveJob::end_after(std::exception_ptr failure) {
  if (joint_) {
    commit_.stop();  // Before others are told: what they hear must stay true.
    const bool is_of_all = failure == joint_->failure();
    joint_->fail(for_others(failure));
    Awaitable<std::exception_ptr> attributed = attribute(failure, is_of_all);
    failure = co_await std::move(attributed);
  }
  // The rest ends by itself. A save that is cancelled now must not leave its directory behind.
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  co_await stop_helpers();  // They write to the directory, and read the caller's memory.
  give_memory_back();       // The clean-up below may take its time.
  // Calls of handlers may still be under way in the directory: it is removed once the last has returned.
  directory_gate_.close();
  co_await directory_gate_.left().wait();
  std::function<void()> clean = [this, &failure] { failure = clean_up(failure); };
  co_await run_call(std::move(clean));
  std::rethrow_exception(failure);
}

contract::Resources SaveJob::resources() noexcept {
  return {plane(), services().coordinator, services().devices, options_.handler_options};
}

std::shared_ptr<std::pmr::memory_resource> SaveJob::plan_memory() const {
  return services().memory.plans;
}

OptionUse* SaveJob::option_use(std::type_index type) const noexcept {
  const auto found = uses_.find(type);
  return found == uses_.end() ? nullptr : found->second.get();
}

Awaitable<> SaveJob::stage_all(Backgrounds* backgrounds) {
  std::vector<Awaitable<>> blocking;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    blocking.push_back(stage_item(i, backgrounds));
  }
  set_callers_thread_busy(true);
  co_await run_phase(blocking_lane(), std::move(blocking));
  set_callers_thread_busy(false);
  if (is_primary()) {
    std::for_each(uses_.begin(), uses_.end(), [](const auto& use) { use.second->end(); });
  }
  if (joint_) {
    co_await agreed_.wait();
  }
  meter().end_step(Step::stage);
  const MutexLock lock(mutex_);
  result_.blocking_time = meter().last() - meter().begin();
}

Awaitable<> SaveJob::finish_all(Backgrounds* backgrounds) {
  std::vector<Awaitable<>> background;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    background.push_back(finish_item(i, std::move(*(*backgrounds)[i])));
  }
  co_await run_phase(background_lane(), std::move(background));
  meter().end_step(Step::background);
}

Awaitable<> SaveJob::create_directory(std::shared_ptr<SaveJob> self) {
  std::exception_ptr failure;
  try {
    if (!self->is_primary()) {
      co_await self->joint_->receive_created();
    }
    std::function<void()> create = [&self] {
      if (self->is_primary()) {
        self->make_directory();
      } else {
        self->join_directory();
      }
    };
    co_await self->run_call(std::move(create));
  } catch (...) {
    failure = std::current_exception();
  }
  self->created_.complete(failure);
}

async::Gate::Visit SaveJob::enter_directory() const {
  async::Gate::Visit inside = directory_gate_.try_enter();
  if (!inside) {
    throw Error(Errc::cancelled, title());
  }
  return inside;
}

void SaveJob::make_directory() {
  const async::Gate::Visit inside = enter_directory();
  store::StagedOptions options;
  options.overwrite = options_.overwrite;
  options.uuid = uuid_;
  if (is_copy()) {
    options.original = original_->manifest().uuid;
  }
  options.on_step = [this](store::PublishStep step) { end_publish_step(step); };
  options.may_publish = [this] { return commit_.begin_commit(); };
  options.may_retire = [this] { return commit_.state() == CommitState::State::committed; };
  options.before_replacing = options_.before_replacing;
  options.wait_for_lock = [this, from = std::optional<std::chrono::steady_clock::time_point>()]() mutable {
    std::this_thread::sleep_for(kLookAtLock);
    from = from ? from : services().clock.steady_now();
    return services().clock.steady_now() - *from < kMaxWait && commit_.state() == CommitState::State::running;
  };
  staged_ = target_->create(engine(), std::move(options));
  for (const SaveItem& item : items_) {
    staged_->make_directory(item.directory);
  }
  if (original_) {
    for (const std::string& directory : store::directories_of(original_->manifest())) {
      staged_->make_directory(directory);
    }
  }
  if (joint_) {
    staged_->make_directory(store::kTablesName);
    joint_->send_created();
  }
}

std::unique_ptr<io::NewFile> SaveJob::create_file(const std::string& relative,
                                                  const io::NewFileOptions& options) {
  const async::Gate::Visit inside = enter_directory();
  return staged_->create_file(relative, options);
}

std::exception_ptr SaveJob::clean_up(std::exception_ptr failure) {
  abandon();
  leftover_ = abandonment_problem();
  has_reported_leftover_ = !async::is_cancelled(failure);  // Else its reason is told in its place.
  failure = with_problem(failure, leftover_);
  if (meter().trace() != nullptr) {
    meter().end_step(Step::retire);
    failure = with_problem(failure, stats().deliver_trace());
  }
  close_directory();
  return failure;
}

void SaveJob::abandon() noexcept {
  const MutexLock lock(abandon_mutex_);
  if (staged_) {
    staged_->abandon();
  }
}

std::string SaveJob::abandonment_problem() {
  const MutexLock lock(abandon_mutex_);
  return staged_ ? staged_->abandonment_problem() : std::string();
}

void SaveJob::close_directory() noexcept {
  directory_gate_.close();
  if (directory_gate_.left().has_happened()) {
    const MutexLock lock(abandon_mutex_);
    staged_.reset();
    target_.reset();
    original_.reset();
  }
}

void SaveJob::clear_up() noexcept {
  services().saves.leave(this);  // It may have been given up before it entered.
  checks_.reset();
  // Not earlier, even when given up: its rename may still be under way, and must not come after that of a later save.
  ticket_.reset();
  if (joint_) {
    joint_->leave();
  }
  report_leftover();
}

void SaveJob::report_leftover() noexcept {
  if (leftover_.empty()) {
    return;
  }
  services().metrics.leave_to_recovery();
  if (!has_reported_leftover_ || is_given_up()) {
    services().operations.lose(path_.string(), std::make_exception_ptr(Error(Errc::io_failure, leftover_)));
  }
}

std::exception_ptr SaveJob::verdict_without_end(const Error& reason) {
  services().metrics.give_up_save();
  // One atomic step: the thread that publishes sees either that its end is not waited for, and removes nothing of the
  // old checkpoint, or has committed before.
  switch (commit_.forget()) {
    case CommitState::State::committed:
      add_unremoved("told before its clean-up had ended: what it has replaced may be left to recovery");
      return nullptr;
    case CommitState::State::unknown:
      return std::make_exception_ptr(Error(
          Errc::commit_unknown,
          fmt::format("{}; its commit was under way and has not answered: the checkpoint may be there or not",
                      reason.detail())));
    default:  // `refuse_effect` has forbidden the publication: it never becomes visible.
      break;
  }
  // On threads of their own, whatever still runs on the strand. What is being done in the directory is waited for.
  directory_gate_.close();
  directory_gate_.left().on_complete(
      [self = std::static_pointer_cast<SaveJob>(shared_from_this())](const std::exception_ptr&) {
        self->services().threads.calls.submit([self] { self->abandon(); });
      });
  return Operation::verdict_without_end(reason);
}

Awaitable<> SaveJob::stage_item(std::size_t index, Backgrounds* backgrounds) {
  const SaveItem& item = items_[index];
  if (!takes_part(item)) {
    (*backgrounds)[index].emplace(Background<>());
    co_return;
  }
  std::exception_ptr failure;
  try {
    SaveContext context(std::static_pointer_cast<SaveJob>(shared_from_this()), item.checkpointable.name(),
                        item.directory);
    const void* value = item.checkpointable.value();
    if (checks_) {
      value = checks_->hand_over(index, item.checkpointable, *item.registration.handler);
    }
    Awaitable<Background<>> blocking = item.registration.handler->save(std::move(context), value);
    async::require_coroutine(blocking, "'save'");
    (*backgrounds)[index].emplace(co_await std::move(blocking));
    if (checks_) {
      checks_->watch(index);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    // Not in a coroutine of its own: to await one throws where this one was cancelled.
    const boost::asio::cancellation_state state = co_await boost::asio::this_coro::cancellation_state;
    const Asked asked = asked_of(state, is_stopped());
    rethrow_of_item(failure, item, asked);
  }
}

Awaitable<> SaveJob::finish_item(std::size_t index, Background<> background) {
  const bool has_background = background.valid();
  std::exception_ptr failure;
  try {
    if (has_background) {
      co_await std::move(background);
    }
    files_.require_complete(items_[index].directory + "/",
                            has_background ? "" : "; the handler returned an empty background");
  } catch (...) {
    failure = std::current_exception();
  }
  if (checks_) {
    failure = checks_->judge(index, std::move(failure));
  }
  if (failure) {
    const boost::asio::cancellation_state state = co_await boost::asio::this_coro::cancellation_state;
    const Asked asked = asked_of(state, is_stopped());
    rethrow_of_item(failure, items_[index], asked);
  }
}

void SaveJob::rethrow_of_item(const std::exception_ptr& failure, const SaveItem& item, Asked asked) const {
  // Why it was stopped says the same, and the save's name. Where it was not yet, `attribute` adds that.
  if (joint_ && failure == joint_->failure()) {
    std::rethrow_exception(asked == Asked::to_stop ? async::cancelled() : failure);
  }
  rethrow_of(failure, who(item), asked);
}

std::vector<io::FileDigest> SaveJob::digest_files() {
  files_.require_complete(
      "", " before the save was published");  // Begun after the end of the handler's background phase.
  store::WrittenFiles::Digests written = files_.take_digests();
  std::set<std::string, std::less<>> announced;  // What ranks write together, nobody finds by looking.
  if (joint_) {
    announced.emplace(store::kTablesName);
    for (const SaveItem& item : items_) {
      if (item.registration.handler->participation() == Participation::all) {
        announced.insert(item.directory);
      }
    }
  }
  std::vector<io::FileDigest> digests;
  if (const io::Directory* directory = staged_->directory();
      directory != nullptr && is_primary() && !is_copy()) {
    digests = store::digest_other_files(*directory, written, announced);
  }
  digests.reserve(digests.size() + written.size());
  for (auto& [path, digest] : written) {
    digests.push_back(std::move(digest));
  }
  const auto by_path = [](const io::FileDigest& a, const io::FileDigest& b) { return a.path < b.path; };
  std::sort(digests.begin(), digests.end(), by_path);
  return digests;
}

void SaveJob::describe(store::Manifest& manifest) const {
  manifest.started = started_at_;
  const std::chrono::system_clock::time_point now = services().clock.now();
  store::set_committed(manifest, now);
  manifest.world_size = static_cast<std::uint32_t>(services().coordinator.size());
  manifest.custom_metadata = options_.custom_metadata;
  manifest.annotations = options_.annotations;
  for (const SaveItem& item : items_) {
    store::CheckpointableEntry entry;
    entry.name = item.checkpointable.name();
    entry.handler_id = item.handler_id;
    entry.directory = item.directory;
    manifest.checkpointables.push_back(std::move(entry));
  }
}

void SaveJob::publish() {
  const async::Gate::Visit inside = enter_directory();
  store::Manifest manifest;
  const std::vector<io::FileDigest> digests = digest_files();
  meter().end_step(Step::read_back);
  if (original_) {
    original_->require_current();
    manifest = original_->manifest();
  } else {
    describe(manifest);
  }
  judge_handlers();
  require_announced(digests);
  if (const io::Directory* directory = staged_->directory();
      directory != nullptr && joint_ && others_.empty()) {
    directory->remove_empty_directory(store::kTablesName);
  }
  prepare_result(digests);
  staged_->publish(std::move(manifest), digests, others_);
  meter().end_step(Step::retire);

  add_unremoved(staged_->retirement_problem());
  measure_result();
}

void SaveJob::judge_handlers() {
  if (!checks_) {
    return;
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (auto failure = checks_->judge(i, nullptr)) {
      rethrow_of(failure, who(items_[i]), Asked::nothing);
    }
  }
  add_problem(checks_->not_checked());
}

void SaveJob::end_publish_step(store::PublishStep step) {
  switch (step) {
    case store::PublishStep::describe:
      return meter().end_step(Step::describe);
    case store::PublishStep::sync_directories:
      return meter().end_step(Step::sync_directories);
    case store::PublishStep::make_visible:
      return meter().end_step(Step::rename);
    case store::PublishStep::sync_parent:
      meter().end_step(Step::sync_parent);
      // Before `end_commit`: a save that is given up after that is told as committed, with this result.
      measure_result();
      static_cast<void>(commit_.end_commit());
      send_committed();
      return;
  }
}

void SaveJob::count_end(const std::exception_ptr& failure) {
  if (failure) {
    services().metrics.fail_save(failure);
  } else {
    const MutexLock lock(mutex_);
    services().metrics.end_save(result_);
  }
}

void SaveJob::yield_to(const SaveJob& newer) {
  if (commit_.state() == CommitState::State::running) {  // Not `commit_.stop`: the reason comes first.
    stop(Errc::superseded, fmt::format("the save of {} is newer", newer.path().string()));
  }
}

void SaveJob::let_go() noexcept {
  if (is_observed) {
    return;
  }
  answered().on_complete(
      [self = std::static_pointer_cast<SaveJob>(shared_from_this())](const std::exception_ptr& failure) {
        const std::exception_ptr lost = failure ? failure : self->unremoved();
        // Superseded: it has yielded, and no handler can say so in its place (`rethrow_of`).
        if (lost && !self->is_observed && code_of(lost) != Errc::superseded) {
          self->services().operations.lose(self->path_.string(), lost);
        }
      });
}

SaveProgress SaveJob::progress() const {
  SaveProgress progress;
  progress.total_bytes = files_.bytes();
  progress.staged_bytes = plane().staged_bytes;
  progress.written_bytes = plane().written_bytes;
  return progress;
}

}  // namespace cairn::core
