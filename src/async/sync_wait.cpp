// SPDX-License-Identifier: Apache-2.0
#include "cairn/async/sync_wait.hpp"

#include <memory>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/executor_gone.hpp"

namespace cairn::async {
namespace asio = boost::asio;

namespace {

/// Makes `event` fail when the task is destroyed before it ends, so that nobody waits for it for ever.
struct FailWhenDropped {
  explicit FailWhenDropped(Event watched) : event(std::move(watched)) {}

  ~FailWhenDropped() {
    event.fail(gone);  // When it has not ended.
  }

  FailWhenDropped(const FailWhenDropped&) = delete;
  FailWhenDropped& operator=(const FailWhenDropped&) = delete;

  const Event event;
  const std::exception_ptr gone = executor_gone();
};

}  // namespace

Event start(const Executor& executor, Awaitable<> task) {
  Event ended;
  asio::co_spawn(executor, std::move(task),
                 [dropped = std::make_shared<FailWhenDropped>(ended)](std::exception_ptr failure) {
                   dropped->event.complete(std::move(failure));
                 });
  return ended;
}

Awaitable<> sleep_for(std::chrono::nanoseconds duration) {
  const Executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, duration);
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace cairn::async
