// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cairn/async/awaitable.hpp"

namespace cairn {
class Context;
}

namespace cairn::core {

class Services;

/// Runs `work`, which blocks, and returns when it has ended; rethrows what it throws. `what` is what it does, for messages.
///
/// With a deadline (zero: none) it runs on a thread of the context's, and may go on after the call has come back: it owns all
/// that it uses.
/// Errors: Errc::timed_out; Errc::closed in a process that was forked from the context's.
void run_within(const Context& context, const std::string& what, std::chrono::nanoseconds deadline,
                std::function<void()> work);

/// As run_within, for a coroutine: `work` runs on a thread of the context's, with a deadline or without, which counts from the
/// await. Whoever calls has made sure that this is the process of the context.
///
/// Cancel: stops waiting; the work goes on.
/// Errors: Errc::timed_out.
[[nodiscard]] Awaitable<> await_within(std::shared_ptr<Services> services, std::string what,
                                       std::chrono::nanoseconds deadline, std::function<void()> work);

/// As run_within, for work that returns something.
template <class T>
T answer_within(const Context& context, const std::string& what, std::chrono::nanoseconds deadline,
                std::function<T()> ask) {
  const auto answer = std::make_shared<T>();
  run_within(context, what, deadline, [answer, ask = std::move(ask)] { *answer = ask(); });
  return std::move(*answer);
}

/// As await_within, for work that returns something.
template <class T>
[[nodiscard]] Awaitable<T> await_answer(std::shared_ptr<Services> services, std::string what,
                                        std::chrono::nanoseconds deadline, std::function<T()> ask) {
  const auto answer = std::make_shared<T>();
  std::function<void()> work = [answer, ask = std::move(ask)] { *answer = ask(); };
  co_await await_within(std::move(services), std::move(what), deadline, std::move(work));
  co_return std::move(*answer);
}

}  // namespace cairn::core
