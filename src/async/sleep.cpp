// SPDX-License-Identifier: Apache-2.0
#include "async/internal/sleep.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cairn::async {

Awaitable<> sleep_for(std::chrono::nanoseconds duration) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  boost::asio::steady_timer timer(executor, duration);
  co_await timer.async_wait(boost::asio::use_awaitable);
}

}  // namespace cairn::async
