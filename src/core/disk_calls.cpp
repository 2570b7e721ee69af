// SPDX-License-Identifier: Apache-2.0
#include "core/internal/disk_calls.hpp"

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/core/context.hpp"

#include "async/internal/event.hpp"
#include "async/internal/timers.hpp"
#include "core/services.hpp"

namespace cairn::core {
namespace {

/// A call that blocks, on a thread of the context's; told of its end or of its deadline, whichever comes first.
class TimedCall {
 public:
  TimedCall(std::shared_ptr<Services> services, const std::string& what, std::chrono::nanoseconds deadline,
            std::function<void()> work)
      : services_(std::move(services)) {
    if (deadline > deadline.zero()) {
      const auto give_up = [ended = ended_, what, deadline] {
        ended.fail(std::make_exception_ptr(
            Error(Errc::timed_out, fmt::format("{}: not done after {:.3f} s", what,
                                               std::chrono::duration<double>(deadline).count()))));
      };
      // From the begin of the call on, whatever happens until it waits.
      timer_ = services_->threads.timers.at(later(services_->clock.steady_now(), deadline), give_up);
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

Awaitable<> await_end(std::shared_ptr<Services> services, std::string what, std::chrono::nanoseconds deadline,
                      std::function<void()> work) {
  const TimedCall call(std::move(services), what, deadline, std::move(work));
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

void DiskCalls::run(const std::string& what, std::chrono::nanoseconds deadline,
                    std::function<void()> work) const {
  if (deadline <= deadline.zero()) {
    work();
    return;
  }
  TimedCall(services_, what, deadline, std::move(work)).ended().get();
}

Awaitable<> DiskCalls::await(std::string what, std::chrono::nanoseconds deadline,
                             std::function<void()> work) const {
  return await_end(services_, std::move(what), deadline, std::move(work));
}

}  // namespace cairn::core
