// SPDX-License-Identifier: Apache-2.0
#include "async/task_group.hpp"

#include <utility>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include "cairn/async/suspend.hpp"

namespace cairn::async {
namespace asio = boost::asio;

void TaskGroup::spawn(Awaitable<> task) {
  Signals::iterator signal;
  bool stop = false;
  {
    const std::lock_guard lock(mutex_);
    signal = signals_.emplace(signals_.end());
    ++running_;
    stop = is_cancelled_;
  }
  auto ended = [self = shared_from_this(), signal](std::exception_ptr failure) {
    self->end(signal, std::move(failure));
  };
  asio::co_spawn(executor_, std::move(task),
                 asio::bind_cancellation_slot(signal->slot(), std::move(ended)));
  if (stop) {
    cancel();
  }
}

void TaskGroup::end(Signals::iterator signal, std::exception_ptr failure) {
  std::vector<std::function<void()>> wake;
  {
    const std::lock_guard lock(mutex_);
    signals_.erase(signal);
    if (failure) {
      failures_.push_back(std::move(failure));
    }
    if (--running_ == 0) {
      wake.swap(waiting_);
      condition_.notify_all();
    }
  }
  for (const auto& resume : wake) {
    resume();
  }
}

void TaskGroup::cancel() {
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
  }
  // Signals are raised where the tasks run: Asio's slots are not thread-safe.
  asio::post(executor_, [self = shared_from_this()] {
    std::vector<asio::cancellation_signal*> raised;
    {
      const std::lock_guard lock(self->mutex_);
      for (asio::cancellation_signal& signal : self->signals_) {
        raised.push_back(&signal);
      }
    }
    // Tasks end in completions of their own on this strand, so no signal goes away during this loop.
    for (asio::cancellation_signal* signal : raised) {
      signal->emit(asio::cancellation_type::terminal);
    }
  });
}

void TaskGroup::wait() {
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [this] { return running_ == 0; });
}

bool TaskGroup::is_running() {
  const std::lock_guard lock(mutex_);
  return running_ != 0;
}

Awaitable<std::vector<std::exception_ptr>> TaskGroup::settle(std::shared_ptr<TaskGroup> group) {
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  if (co_await cancellation_requested()) {
    group->cancel();
  }
  Start start = [group](const Resume& resume) {
    {
      const std::lock_guard lock(group->mutex_);
      if (group->running_ != 0) {
        group->waiting_.emplace_back([resume] { resume(); });
        return;
      }
    }
    resume();
  };
  OnCancel pass_on = [group](const Resume&) { group->cancel(); };
  co_await suspend(std::move(start), std::move(pass_on));
  co_await asio::this_coro::throw_if_cancelled(throws);
  const std::lock_guard lock(group->mutex_);
  co_return std::exchange(group->failures_, {});
}

}  // namespace cairn::async
