// SPDX-License-Identifier: Apache-2.0
#include "async/internal/limited_pool.hpp"

#include <deque>
#include <exception>
#include <utility>

#include "async/internal/suspend.hpp"
#include "async/internal/thread_scope.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::async {

struct LimitedPool::State {
  State(ThreadPool& threads, std::size_t at_once) : pool(threads), most(at_once) {}

  /// Runs functions one after the other, on one thread, until none waits.
  static void run(const std::shared_ptr<State>& self, std::function<void()> work) noexcept {
    const ThreadScope scope(self.get());
    while (work) {
      work();
      work = nullptr;
      const MutexLock lock(self->mutex);
      if (self->waiting.empty()) {
        --self->running;
        return;
      }
      work = std::move(self->waiting.front());
      self->waiting.pop_front();
    }
  }

  ThreadPool& pool;
  const std::size_t most;
  Mutex mutex;
  std::size_t running CAIRN_GUARDED_BY(mutex) = 0;
  std::deque<std::function<void()>> waiting CAIRN_GUARDED_BY(mutex);
};

LimitedPool::LimitedPool(ThreadPool& pool, std::size_t most_at_once)
    : state_(std::make_shared<State>(pool, most_at_once)) {}

void LimitedPool::submit(std::function<void()> work) const {
  {
    const MutexLock lock(state_->mutex);
    if (state_->running == state_->most) {
      state_->waiting.push_back(std::move(work));
      return;
    }
    ++state_->running;
  }
  state_->pool.submit(
      [state = state_, work = std::move(work)]() mutable { State::run(state, std::move(work)); });
}

std::size_t LimitedPool::size() const noexcept {
  return state_->most;
}

bool LimitedPool::runs_this_thread() const noexcept {
  return ThreadScope::is_in(state_.get());
}

Awaitable<> offload(LimitedPool pool, std::function<void()> work) {
  Start start = [&pool, &work](Resume resume) {
    pool.submit([&work, resume = std::move(resume)] {
      std::exception_ptr failure;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      resume(std::move(failure));
    });
  };
  co_await suspend(std::move(start));
}

}  // namespace cairn::async
