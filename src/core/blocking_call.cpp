// SPDX-License-Identifier: Apache-2.0
#include "core/blocking_call.hpp"

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

}  // namespace

void run_within(const Context& context, const std::string& what, std::chrono::nanoseconds deadline,
                std::function<void()> work) {
  const std::shared_ptr<Services>& services = core::services_of(context);
  services->require_own_process();
  if (deadline <= deadline.zero()) {
    work();
    return;
  }
  TimedCall(services, what, deadline, std::move(work)).ended().get();
}

Awaitable<> await_within(std::shared_ptr<Services> services, std::string what,
                         std::chrono::nanoseconds deadline, std::function<void()> work) {
  const TimedCall call(std::move(services), what, deadline, std::move(work));
  co_await call.ended().wait();
}

}  // namespace cairn::core
