// SPDX-License-Identifier: Apache-2.0
#pragma once

// Boost 1.81's awaitable.hpp uses std::exchange without including it.
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

namespace cairn {

/// The coroutine type of every asynchronous function: lazy, movable, awaited once.
template <class T = void>
using Awaitable = boost::asio::awaitable<T>;

/// A phase that nobody has started yet. The same type as `Awaitable`; the name says who starts it:
/// not the function that returns it.
template <class T = void>
using Background = boost::asio::awaitable<T>;

/// Where coroutines are resumed.
using Executor = boost::asio::any_io_executor;

}  // namespace cairn
