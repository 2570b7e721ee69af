// SPDX-License-Identifier: Apache-2.0
#include "core/save_job.hpp"

#include <functional>
#include <utility>

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"

#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"
#include "core/failures.hpp"
#include "core/handler_calls.hpp"
#include "store/internal/checkpoint_lock.hpp"

namespace cairn::core {
namespace {

using Act = joint::SaveProtocol::Act;

std::string title_of(const SaveJob::Plan& plan) {
  return plan.copied.empty() ? fmt::format("save of {}", plan.path.string())
                             : fmt::format("copy of {} to {}", plan.copied.string(), plan.path.string());
}

}  // namespace

SaveJob::SaveJob(std::shared_ptr<Services> services, Plan plan, observe::Meter::TimePoint begin)
    : Operation(std::move(services), title_of(plan), begin, plan.options.trace, plan.kind),
      turn_(this->services().saves),
      files_(*this, std::move(plan.path), std::move(plan.items), std::move(plan.options), plan.joint.get()),
      protocol_(!plan.joint || plan.joint->is_primary()),
      ranks_(SaveRanks::make(std::move(plan.joint), {*this, files_, protocol_})),
      copy_(plan.copied.empty() ? nullptr
                                : std::make_unique<CheckpointCopy>(*this, files_, std::move(plan.copied))),
      checks_(HandlerChecks::make(this->services().options, options().snapshot, files_.items().size())) {
  plane().yields = !plan.is_waited_for;
  plane().copies_yield = plan.kind.blocking == BlockingPhase::by_context && !plan.is_waited_for;
}

SaveJob::~SaveJob() {
  ranks_->stop_listening();
}

std::shared_ptr<SaveJob> SaveJob::self() {
  return std::static_pointer_cast<SaveJob>(shared_from_this());
}

void SaveJob::start() {
  try {
    // A caller that waits until it is accepted must also be told when it was given up before.
    answered().on_complete(
        [accepted = accepted()](const std::exception_ptr& failure) { accepted.complete(failure); });
    ranks_->listen();
    launch(work(), options().deadline);
  } catch (...) {
    ranks_->fail(std::current_exception());
    services().metrics.fail_save(std::current_exception());
    throw;
  }
}

Awaitable<bool> SaveJob::take_turn() {
  bool is_there = false;
  std::function<void()> look = [&] {
    if (copy_) {
      is_there = !copy_->look();
    } else {
      files_.look(!ranks_->is_primary());  // Whether its name is free is for rank 0 to say.
    }
  };
  co_await run_call(std::move(look));
  meter().end_step(Step::resolve);
  if (is_stopped()) {  // Others must not yield to a save that was stopped before it had a ticket.
    throw Error(Errc::cancelled, title());
  }
  if (is_there) {
    accepted().set();
    co_return false;
  }
  co_await turn_.enter(self(), files_.target(), ranks_->is_primary()).wait();
  co_return true;
}

Awaitable<> SaveJob::work() {
  for (Act act = protocol_.act(); act != Act::end; act = protocol_.act()) {
    try {
      Awaitable<> performing = perform(act);
      co_await std::move(performing);
      protocol_.did(act);
      continue;
    } catch (...) {
      failure_ = failure_ ? failure_ : std::current_exception();
    }
    protocol_.failed();
    // A save that was cancelled cleans up as well: from here on no co_await throws because of it.
    co_await boost::asio::this_coro::throw_if_cancelled(false);
  }
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

Awaitable<> SaveJob::perform(Act act) {
  switch (act) {
    case Act::write:
      return write();
    case Act::collect_votes:
      return collect_votes();
    case Act::publish:
    case Act::close:
      return publish_and_close();
    case Act::prepare:
      return prepare();
    case Act::tell_failure:
      return tell_failure();
    case Act::abandon:
      return abandon();
    default:
      return ranks_->take_part();
  }
}

Awaitable<> SaveJob::write() {
  if (!co_await take_turn()) {
    mark_prepared();
    protocol_.end();
    co_return;
  }
  // On the strand of the helpers: the directory is made while handlers copy.
  helpers().spawn(create_directory(self()));
  ranks_->begin_to_agree();
  HandlerCalls calls(*this, files_, *ranks_, checks_.get());
  co_await stage_all(&calls);
  mark_prepared();
  co_await leave_caller();  // What follows must not run on the caller's thread.
  co_await files_.created().wait();
  std::vector<Awaitable<>> background = copy_ ? copy_->copy() : calls.finish();
  co_await run_phase(background_lane(), std::move(background));
  meter().end_step(Step::background);
}

Awaitable<> SaveJob::collect_votes() {
  co_await ranks_->collect_votes();
  co_await turn_.may_publish().wait();
}

Awaitable<> SaveJob::publish_and_close() {
  std::function<void()> work = [this] {
    if (protocol_.act() == Act::publish) {
      publish();
    }
    files_.add_problem(stats().deliver_trace());
    close_directory();
  };
  co_await run_call(std::move(work));
}

Awaitable<> SaveJob::tell_failure() {
  Awaitable<std::exception_ptr> ended = ranks_->end(failure_);
  failure_ = co_await std::move(ended);
}

Awaitable<> SaveJob::abandon() {
  // The rest ends by itself. A save that is cancelled now must not leave its directory behind.
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  co_await stop_helpers();  // They write to the directory, and read the caller's memory.
  give_memory_back();       // The clean-up below may take its time.
  // Calls of handlers may still be under way in the directory: it is removed once the last has returned.
  co_await files_.shut().wait();
  std::function<void()> clean = [this] { clean_up(); };
  co_await run_call(std::move(clean));
}

Awaitable<> SaveJob::stage_all(HandlerCalls* calls) {
  std::vector<Awaitable<>> blocking = calls->stage();
  set_callers_thread_busy(true);
  co_await run_phase(blocking_lane(), std::move(blocking));
  set_callers_thread_busy(false);
  if (ranks_->is_primary()) {
    files_.end_option_uses();
  }
  co_await ranks_->agreed();
  meter().end_step(Step::stage);
  files_.report().end_blocking_phase();
}

Awaitable<> SaveJob::create_directory(std::shared_ptr<SaveJob> self) {
  std::exception_ptr failure;
  try {
    co_await self->ranks_->hear_of_directory();
    std::function<void()> create = [&self] {
      const async::Gate::Visit inside = self->files_.enter();
      if (self->ranks_->is_primary()) {
        self->make_directory();
        self->ranks_->announce_directory();
      } else {
        self->ranks_->join_directory();
      }
    };
    co_await self->run_call(std::move(create));
  } catch (...) {
    failure = std::current_exception();
  }
  self->files_.created().complete(failure);
}

/// Asks code of the program, whose failures are as those of a handler.
void SaveJob::ask_before_replacing() const {
  try {
    options().before_replacing();
  } catch (...) {
    rethrow_of(std::current_exception(), fmt::format("{}: before_replacing", files_.place()), Asked::nothing);
  }
}

void SaveJob::make_directory() {
  store::StagedOptions staged;
  staged.overwrite = options().overwrite;
  staged.uuid = files_.uuid();
  if (copy_) {
    staged.original = copy_->manifest().uuid;
  }
  staged.on_step = [this](store::PublishStep step) { end_publish_step(step); };
  staged.may_publish = [this] { return protocol_.commit().begin_commit(); };
  staged.may_retire = [this] { return protocol_.commit().state() == joint::CommitState::State::committed; };
  if (options().before_replacing) {
    staged.before_replacing = [this] { ask_before_replacing(); };
  }
  staged.wait_for_lock = [this, lock = store::LockWait(services().clock)]() mutable {
    using State = joint::CommitState::State;
    if (const State state = protocol_.commit().state(); state == State::stopped || state == State::unknown) {
      std::rethrow_exception(async::cancelled());  // Why it was stopped, the operation says itself.
    }
    return lock.wait();
  };
  files_.create(std::move(staged));
  if (copy_) {
    copy_->make_directories();
  }
}

std::vector<io::FileDigest> SaveJob::digest_files() {
  std::vector<io::FileDigest> digests;
  try {
    digests = files_.take_digests(ranks_->is_primary() && !copy_, ranks_->shared_directories());
  } catch (const Error& error) {
    if (error.code() == Errc::handler_failed) {  // The text has the path of a file within the checkpoint.
      std::rethrow_exception(with_context(std::current_exception(), files_.place()));
    }
    throw;
  }
  if (ranks_->is_primary()) {
    meter().end_step(Step::read_back);
  }
  if (copy_) {
    copy_->require_current();
  }
  if (checks_) {
    HandlerCalls::judge(files_, *checks_);
  }
  return digests;
}

void SaveJob::publish() {
  CAIRN_ASSERT(ranks_->is_primary(), "rank 0 publishes");
  const async::Gate::Visit inside = files_.enter();
  const std::vector<io::FileDigest> digests = digest_files();
  ranks_->require_announced(digests);
  files_.report().prepare(path(), digests, ranks_->others());
  ranks_->judge_division();
  files_.staged().publish(copy_ ? copy_->manifest() : files_.describe(), digests, ranks_->others());
  meter().end_step(Step::retire);

  files_.report().add_unremoved(files_.staged().retirement_problem());
  files_.report().measure();
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
      files_.report().measure();
      static_cast<void>(protocol_.commit().end_commit());
      ranks_->send_committed();
      return;
  }
}

Awaitable<> SaveJob::prepare() {
  CAIRN_ASSERT(!ranks_->is_primary(), "who prepares does not publish");
  std::function<void()> prepare = [this] {
    const async::Gate::Visit inside = files_.enter();
    const std::vector<io::FileDigest> digests = digest_files();
    files_.report().prepare(path(), digests, {});
    ranks_->prepared(files_.staged().prepare(digests));
    meter().end_step(Step::describe);
  };
  co_await run_call(std::move(prepare));
  // A rank that is stopped from here on still waits for the verdict: once it has voted, rank 0 may publish.
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
}

void SaveJob::clean_up() {
  CAIRN_ASSERT(failure_, "a save cleans up after a failure");
  files_.abandon();
  leftover_ = files_.abandonment_problem();
  has_reported_leftover_ = !async::is_cancelled(failure_);  // Else its reason is told in its place.
  failure_ = with_problem(failure_, leftover_);
  if (meter().trace() != nullptr) {
    meter().end_step(Step::retire);
    failure_ = with_problem(failure_, stats().deliver_trace());
  }
  close_directory();
}

void SaveJob::close_directory() noexcept {
  if (files_.close() && copy_) {
    copy_->close();
  }
}

void SaveJob::clear_up() noexcept {
  turn_.leave_context(*this);  // It may have been given up before it entered.
  checks_.reset();
  // Not earlier, even when given up: its rename may still be under way, and must not come after that of a later save.
  turn_.leave_target();
  ranks_->leave();
  if (leftover_.empty()) {
    return;
  }
  services().metrics.leave_to_recovery();
  if (!has_reported_leftover_ || is_given_up()) {  // Else its error has said so.
    services().operations.lose(path().string(), std::make_exception_ptr(Error(Errc::io_failure, leftover_)));
  }
}

std::exception_ptr SaveJob::verdict_without_end(const Error& reason) {
  services().metrics.give_up_save();
  // One atomic step: the thread that publishes sees either that its end is not waited for, and removes nothing of the
  // old checkpoint, or has committed before.
  switch (protocol_.commit().forget()) {
    case joint::CommitState::State::committed:
      files_.report().add_unremoved(
          "told before its clean-up had ended: what it has replaced may be left to recovery");
      return nullptr;
    case joint::CommitState::State::unknown:
      return std::make_exception_ptr(Error(
          Errc::commit_unknown,
          fmt::format("{}; its commit was under way and has not answered: the checkpoint may be there or not",
                      reason.detail())));
    default:  // `refuse_effect` has forbidden the publication: it never becomes visible.
      break;
  }
  // On threads of their own, whatever still runs on the strand. What is being done in the directory is waited for.
  files_.shut().on_complete([self = self()](const std::exception_ptr&) {
    self->services().threads.calls.submit([self] { self->files_.abandon(); });
  });
  return Operation::verdict_without_end(reason);
}

void SaveJob::count_end(const std::exception_ptr& failure) {
  if (failure) {
    services().metrics.fail_save(failure);
  } else {
    services().metrics.end_save(files_.report().result());
  }
}

void SaveJob::yield_to(const SaveJob& newer) {
  CAIRN_ASSERT(this != &newer, "a save yields to another one");
  if (protocol_.commit().state() ==
      joint::CommitState::State::running) {  // Not `commit_.stop`: the reason comes first.
    stop(Errc::superseded, fmt::format("the save of {} is newer", newer.path().string()));
  }
}

void SaveJob::let_go() noexcept {
  if (is_observed) {
    return;
  }
  answered().on_complete([self = self()](const std::exception_ptr& failure) {
    const std::exception_ptr lost = failure ? failure : self->files_.report().unremoved();
    // Superseded: it has yielded, and no handler can say so in its place (`rethrow_of`).
    if (lost && !self->is_observed && code_of(lost) != Errc::superseded) {
      self->services().operations.lose(self->path().string(), lost);
    }
  });
}

}  // namespace cairn::core
