// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cairn/async/awaitable.hpp"

#include "joint/internal/commit_state.hpp"

namespace cairn {
class Clock;
class Context;
}  // namespace cairn

namespace cairn::io {
class Syscalls;
}

namespace cairn::store {
class Store;
}

namespace cairn::core {

class Services;
using joint::CommitState;

/// Calls that ask the disk and are not operations: what looks for checkpoints, cleans and removes. They use a
/// context, which may be gone before they have ended.
///
/// Work that has a deadline (zero: none), or is awaited, runs on a thread of the context's, and may go on after its
/// call has come back: it owns all that it uses. So does all work of a thread that the coordinator wants to be lent
/// meanwhile, as a removal may wait for a save, and that for the other ranks. `what` is what it does, for messages.
/// Threads: every method may be called from any thread.
class DiskCalls {
 public:
  /// Errors: Errc::closed in a process that was forked from the context's.
  explicit DiskCalls(const Context& context);

  [[nodiscard]] io::Syscalls& syscalls() const noexcept;
  [[nodiscard]] const Clock& clock() const noexcept;
  [[nodiscard]] const store::Store& checkpoint_store() const noexcept;
  [[nodiscard]] const std::shared_ptr<Services>& services() const noexcept { return services_; }

  /// Runs `work` and returns when it has ended; rethrows what it throws.
  ///
  /// Errors: Errc::timed_out.
  void run(const std::string& what, std::chrono::nanoseconds deadline, std::function<void()> work) const;
  /// The same for a coroutine; the deadline counts from the await.
  ///
  /// Cancel: stops waiting; the work goes on.
  /// Errors: Errc::timed_out.
  [[nodiscard]] Awaitable<> await(std::string what, std::chrono::nanoseconds deadline,
                                  std::function<void()> work) const;

  /// As `run`, for work that changes the disk. It must not begin to do so once its caller was told that it is late,
  /// and so asks CommitState::begin_commit right before. Closing the context waits for it.
  ///
  /// Errors: Errc::timed_out, which says whether it goes on; Errc::closed.
  void change(const std::string& what, std::chrono::nanoseconds deadline,
              std::function<void(CommitState& commit)> work) const;

  /// As `run`, for work that returns something.
  template <class T>
  T ask(const std::string& what, std::chrono::nanoseconds deadline, std::function<T()> ask) const {
    const auto answer = std::make_shared<T>();
    run(what, deadline, [answer, ask = std::move(ask)] { *answer = ask(); });
    return std::move(*answer);
  }

  /// As `await`, likewise.
  template <class T>
  [[nodiscard]] Awaitable<T> await_answer(std::string what, std::chrono::nanoseconds deadline,
                                          std::function<T()> ask) const {
    return answer_of(*this, std::move(what), deadline, std::move(ask));
  }

 private:
  template <class T>
  static Awaitable<T> answer_of(DiskCalls calls, std::string what, std::chrono::nanoseconds deadline,
                                std::function<T()> ask) {
    const auto answer = std::make_shared<T>();
    std::function<void()> work = [answer, ask = std::move(ask)] { *answer = ask(); };
    co_await calls.await(std::move(what), deadline, std::move(work));
    co_return std::move(*answer);
  }

  std::shared_ptr<Services> services_;
};

}  // namespace cairn::core
