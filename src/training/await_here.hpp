// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "cairn/async/awaitable.hpp"

namespace cairn::training {

/// Runs `task` on the calling thread, which it blocks until it has ended. Returns its result, rethrows its failure.
template <class T>
T await_here(Awaitable<T> task) {
  boost::asio::io_context here(1);
  std::optional<T> result;
  std::exception_ptr failure;
  boost::asio::co_spawn(here, std::move(task), [&](std::exception_ptr why, T value) {
    failure = why;
    result = std::move(value);
  });
  here.run();
  if (failure) {
    std::rethrow_exception(failure);
  }
  return std::move(*result);
}

}  // namespace cairn::training
