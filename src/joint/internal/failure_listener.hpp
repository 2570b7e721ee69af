// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "cairn/coord/session.hpp"

#include "base/internal/mutex.hpp"

namespace cairn::joint {

/// Tells an operation that another rank has failed first. It holds no reference to the operation, which might then be
/// destroyed on the transport's thread: the operation calls `stop` before it ends.
///
/// Threads: every method may be called from any thread.
class FailureListener {
 public:
  using Work = std::function<void(const std::exception_ptr& why)>;

  /// Calls `work` when the session fails elsewhere; see Session::on_failure. Called once.
  void listen(const coord::Session& session, Work work) {
    {
      const MutexLock lock(state_->mutex);
      state_->work = std::move(work);
    }
    session.on_failure([state = state_](const std::exception_ptr& why) {
      const MutexLock lock(state->mutex);
      if (state->work && !state->has_failed_itself) {
        state->work(why);
      }
    });
  }

  /// This rank has failed by itself: it need not be told.
  void note_own_failure() noexcept { state_->has_failed_itself = true; }

  [[nodiscard]] bool has_failed_itself() const noexcept { return state_->has_failed_itself; }

  /// Returns when the work does not run, and will not.
  void stop() noexcept {
    const MutexLock lock(state_->mutex);
    state_->work = nullptr;
  }

 private:
  struct State {
    Mutex mutex;
    Work work CAIRN_GUARDED_BY(mutex);
    std::atomic<bool> has_failed_itself{false};
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace cairn::joint
