// SPDX-License-Identifier: Apache-2.0
#include "cairn/async/sync_wait.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cairn::async {
namespace asio = boost::asio;

Event start(const Executor& executor, Awaitable<> task) {
  Event ended;
  asio::co_spawn(executor, std::move(task),
                 [ended](std::exception_ptr failure) { ended.complete(std::move(failure)); });
  return ended;
}

Awaitable<> sleep_for(std::chrono::nanoseconds duration) {
  const Executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, duration);
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace cairn::async
