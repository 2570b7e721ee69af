// SPDX-License-Identifier: Apache-2.0
#include "core/internal/disk_calls.hpp"

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/core/context.hpp"

#include "async/internal/event.hpp"
#include "async/internal/timers.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "base/internal/require_timeout.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"
#include "core/services.hpp"

namespace cairn::core {
namespace {

/// Returns what a call that is given up tells its caller.
std::exception_ptr too_late(const std::string& what, std::chrono::nanoseconds deadline,
                            std::string_view remark) {
  return std::make_exception_ptr(
      Error(Errc::timed_out, fmt::format("{}: not done after {:.3f} s{}", what,
                                         std::chrono::duration<double>(deadline).count(), remark)));
}

/// A call that blocks, on a thread of the context's; told of its end or of its deadline, whichever comes first.
class TimedCall {
 public:
  /// `give_up` is asked at the deadline what to say.
  TimedCall(std::shared_ptr<Services> services, std::chrono::nanoseconds deadline, std::function<void()> work,
            std::function<std::exception_ptr()> give_up)
      : services_(std::move(services)) {
    if (deadline > deadline.zero()) {
      const auto tell = [ended = ended_, give_up = std::move(give_up)] { ended.fail(give_up()); };
      // From the begin of the call on, whatever happens until it waits.
      timer_ = services_->threads.timers.at(later(services_->clock.steady_now(), deadline), tell);
    }
    services_->threads.calls.submit([services = services_, ended = ended_, work = std::move(work)] {
      std::exception_ptr failure;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      ended.complete(std::move(failure));
    });
  }

  ~TimedCall() {
    if (timer_) {
      services_->threads.timers.forget(*timer_);
    }
  }

  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;

  [[nodiscard]] const async::Event& ended() const noexcept { return ended_; }

 private:
  const std::shared_ptr<Services> services_;
  const async::Event ended_;
  std::optional<async::Timers::Id> timer_;
};

/// Sets events when it goes away.
class SetAtEnd {
 public:
  explicit SetAtEnd(std::array<async::Event, 2> events) : events_(std::move(events)) {}
  ~SetAtEnd() {
    for (const async::Event& event : events_) {
      event.set();
    }
  }
  SetAtEnd(const SetAtEnd&) = delete;
  SetAtEnd& operator=(const SetAtEnd&) = delete;

 private:
  const std::array<async::Event, 2> events_;
};

/// Runs `work` here where it has no deadline, and nobody wants this thread meanwhile; else elsewhere, and waits.
void run_or_wait(const std::shared_ptr<Services>& services, std::chrono::nanoseconds deadline,
                 std::function<void()> work, std::function<std::exception_ptr()> give_up) {
  coord::BorrowedCallerThread thread(services->coordinator);
  if (deadline <= deadline.zero() && !thread.is_wanted()) {
    work();
    return;
  }
  const TimedCall call(services, deadline, std::move(work), std::move(give_up));
  const bool has_ended = thread.wait(call.ended(), std::chrono::nanoseconds::max(), system_clock());
  CAIRN_ASSERT(has_ended, "a wait without a limit ends when the call does");
  call.ended().get();
}

Awaitable<> await_end(std::shared_ptr<Services> services, std::string what, std::chrono::nanoseconds deadline,
                      std::function<void()> work) {
  std::function<std::exception_ptr()> give_up = [what, deadline] { return too_late(what, deadline, ""); };
  const TimedCall call(std::move(services), deadline, std::move(work), std::move(give_up));
  co_await call.ended().wait();
}

}  // namespace

DiskCalls::DiskCalls(const Context& context) : services_(services_of(context)) {
  services_->require_own_process();
}

io::Syscalls& DiskCalls::syscalls() const noexcept {
  return services_->disk.engine().syscalls();
}

const Clock& DiskCalls::clock() const noexcept {
  return services_->clock;
}

const store::Store& DiskCalls::checkpoint_store() const noexcept {
  return services_->checkpoint_store();
}

void DiskCalls::run(const std::string& what, std::chrono::nanoseconds deadline,
                    std::function<void()> work) const {
  require_not_negative(deadline, fmt::format("{}: the deadline", what));
  run_or_wait(services_, deadline, std::move(work), [&] { return too_late(what, deadline, ""); });
}

void DiskCalls::change(const std::string& what, std::chrono::nanoseconds deadline,
                       std::function<void(CommitState& commit)> work) const {
  require_not_negative(deadline, fmt::format("{}: the deadline", what));
  const auto commit = std::make_shared<CommitState>();
  const OperationRegistry::Call call{what, {}, {}};
  services_->operations.enter(call);
  std::function<void()> tracked = [commit, call, work = std::move(work)] {
    const SetAtEnd at_end({call.told, call.ended});
    work(*commit);
  };
  const auto give_up = [commit, call, what, deadline] {
    const bool goes_on = commit->stop() == CommitState::State::committing;
    CAIRN_PROBE("core.change_given_up");
    call.told.set();
    return too_late(what, deadline, goes_on ? "; it goes on" : "; nothing was changed");
  };
  run_or_wait(services_, deadline, std::move(tracked), give_up);
}

Awaitable<> DiskCalls::await(std::string what, std::chrono::nanoseconds deadline,
                             std::function<void()> work) const {
  require_not_negative(deadline, fmt::format("{}: the deadline", what));
  return await_end(services_, std::move(what), deadline, std::move(work));
}

}  // namespace cairn::core
