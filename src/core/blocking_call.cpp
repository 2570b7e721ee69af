// SPDX-License-Identifier: Apache-2.0
#include "core/blocking_call.hpp"

#include <exception>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/core/context.hpp"

#include "async/internal/event.hpp"
#include "core/services.hpp"

namespace cairn::core {

void run_within(const Context& context, const std::string& what, std::chrono::nanoseconds deadline,
                std::function<void()> work) {
  const std::shared_ptr<Services>& services = core::services_of(context);
  services->require_own_process();
  if (deadline <= deadline.zero()) {
    work();
    return;
  }
  const async::Event ended;
  const auto give_up = [ended, what, deadline] {
    ended.fail(std::make_exception_ptr(Error(
        Errc::timed_out,
        fmt::format("{}: not done after {:.3f} s", what, std::chrono::duration<double>(deadline).count()))));
  };
  // From the begin of the call on, whatever happens until it waits.
  const auto timer = services->threads.timers.at(later(services->clock.steady_now(), deadline), give_up);
  services->threads.calls.submit([services, ended, work = std::move(work)] {
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    ended.complete(std::move(failure));
  });
  try {
    ended.get();
  } catch (...) {
    services->threads.timers.forget(timer);
    throw;
  }
  services->threads.timers.forget(timer);
}

}  // namespace cairn::core
