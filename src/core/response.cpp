// SPDX-License-Identifier: Apache-2.0
#include "core/response.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "async/internal/suspend.hpp"

namespace cairn::core {

void require_may_wait(const Operation& operation) {
  if (!operation.answered().has_happened() && is_busy_here(operation.services())) {
    throw Error(
        Errc::invalid_argument,
        fmt::format(
            "{}: one of the context's own threads, or a handler in its blocking phase, must not wait for it; "
            "await it",
            operation.title()));
  }
}

void wait_for_answer(const Operation& operation, std::chrono::nanoseconds timeout) {
  require_may_wait(operation);
  if (!operation.answered().wait_for(timeout, operation.services().clock)) {
    throw Error(Errc::still_running, fmt::format("{} is still running after {:.3f} s", operation.title(),
                                                 std::chrono::duration<double>(timeout).count()));
  }
}

// outlives: who awaits keeps the operation.
Awaitable<> wait_or_stop(Operation& operation, async::Event event) {
  async::Start start = [event](const async::Resume& resume) {
    event.on_complete([resume](const std::exception_ptr& failure) { resume(failure); });
  };
  async::OnCancel on_cancel = [&operation](const async::Resume& resume) {
    if (!operation.released().has_happened()) {
      operation.is_observed = true;
      operation.stop(Errc::cancelled, "its awaiting was cancelled");
    }
    operation.released().on_complete([resume](const std::exception_ptr&) { resume(async::cancelled()); });
  };
  co_await async::suspend(std::move(start), std::move(on_cancel));
}

void take_memory_back(Operation& operation) noexcept {
  if (!operation.released().has_happened()) {
    operation.stop(Errc::cancelled, "its response was dropped before the caller's memory was free");
    operation.released().get();
  }
}

}  // namespace cairn::core
