// SPDX-License-Identifier: Apache-2.0
#include "async/internal/task_group.hpp"

#include <optional>
#include <utility>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include "async/executor_gone.hpp"
#include "async/internal/suspend.hpp"

namespace cairn::async {
namespace asio = boost::asio;

/// One spawned task, seen from its group. A task that is destroyed before it ends (because its executor's
/// context is) counts as ended too: `settle` must not wait for ever.
class TaskGroup::Task {
 public:
  explicit Task(std::shared_ptr<TaskGroup> group) : group_(std::move(group)) {
    const MutexLock lock(group_->mutex_);
    ++group_->running_;
  }

  ~Task() {
    if (group_) {
      end(executor_gone());
    }
  }

  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  void end(std::exception_ptr failure) noexcept {
    const std::shared_ptr<TaskGroup> group = std::exchange(group_, nullptr);
    group->end(*this, std::move(failure));
  }

  std::optional<std::list<asio::cancellation_signal>::iterator> signal;

 private:
  std::shared_ptr<TaskGroup> group_;
};

void TaskGroup::spawn(Awaitable<> task) {
  auto entry = std::make_shared<Task>(shared_from_this());
  // Where the tasks run: Asio's slots are not thread-safe, and cancel() may come from anywhere.
  asio::dispatch(executor_, [self = shared_from_this(), task = std::move(task), entry]() mutable {
    self->launch(std::move(task), entry);
  });
}

void TaskGroup::launch(Awaitable<> task, const std::shared_ptr<Task>& entry) {
  asio::cancellation_slot slot;
  {
    const MutexLock lock(mutex_);
    entry->signal = signals_.emplace(signals_.end());
    slot = (*entry->signal)->slot();
  }
  auto ended = [entry](std::exception_ptr failure) { entry->end(std::move(failure)); };
  asio::co_spawn(executor_, std::move(task), asio::bind_cancellation_slot(slot, std::move(ended)));
  MutexLock lock(mutex_);
  if (is_cancelled_) {
    lock.unlock();
    cancel();
  }
}

void TaskGroup::end(Task& entry, std::exception_ptr failure) noexcept {
  std::optional<Resume> wake;
  {
    const MutexLock lock(mutex_);
    if (entry.signal) {
      signals_.erase(*entry.signal);
    }
    if (failure) {
      failures_.push_back(std::move(failure));
    }
    if (--running_ == 0) {
      wake = std::exchange(waiting_, std::nullopt);
      condition_.notify_all();
    }
  }
  if (wake) {
    (*wake)();
  }
}

void TaskGroup::cancel() {
  {
    const MutexLock lock(mutex_);
    is_cancelled_ = true;
    if (std::exchange(is_raise_posted_, true)) {
      return;  // One round reaches all: n tasks spawned after a failure must not cost n rounds of n signals.
    }
  }
  asio::post(executor_, [self = shared_from_this()] { self->raise_signals(); });
}

void TaskGroup::raise_signals() {
  MutexLock lock(mutex_);
  is_raise_posted_ = false;
  // Tasks begin and end in completions of their own on this strand, so the list stays as it is during this loop.
  for (asio::cancellation_signal& signal : signals_) {
    lock.unlock();
    signal.emit(asio::cancellation_type::terminal);
    lock.lock();
  }
}

void TaskGroup::wait() {
  MutexLock lock(mutex_);
  condition_.wait(lock, [this]() CAIRN_REQUIRES(mutex_) { return running_ == 0; });
}

bool TaskGroup::is_running() {
  const MutexLock lock(mutex_);
  return running_ != 0;
}

void TaskGroup::resume_when_settled(const Resume& resume) {
  {
    const MutexLock lock(mutex_);
    if (running_ != 0) {
      waiting_.emplace(resume);
      return;
    }
  }
  resume();
}

Awaitable<std::vector<std::exception_ptr>> TaskGroup::settle(std::shared_ptr<TaskGroup> group) noexcept {
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
  if (state.cancelled() != asio::cancellation_type::none) {
    group->cancel();
  }
  if (group->is_running()) {
    // The group lives in this frame.
    Start start = [self = group.get()](const Resume& resume) { self->resume_when_settled(resume); };
    OnCancel pass_on = [self = group.get()](const Resume&) { self->cancel(); };
    co_await suspend(std::move(start), std::move(pass_on));
  }
  co_await asio::this_coro::throw_if_cancelled(throws);
  const MutexLock lock(group->mutex_);
  co_return std::exchange(group->failures_, {});
}

}  // namespace cairn::async
