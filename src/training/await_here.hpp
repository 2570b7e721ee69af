// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "cairn/async/awaitable.hpp"
#include "cairn/coord/coordinator.hpp"

#include "coord/internal/borrowed_caller_thread.hpp"

namespace cairn::training {

/// Runs `task` on the calling thread, which it blocks until it has ended, and lends to the coordinator where that
/// needs it. Returns its result, rethrows its failure.
template <class T>
T await_here(coord::Coordinator& coordinator, Awaitable<T> task) {
  boost::asio::io_context here(1);
  std::optional<T> result;
  std::exception_ptr failure;
  boost::asio::co_spawn(here, std::move(task), [&](std::exception_ptr why, T value) {
    failure = why;
    result = std::move(value);
  });
  coord::BorrowedCallerThread thread(coordinator);
  while (thread.is_wanted() && !here.stopped()) {
    here.run_for(thread.progress(false));
  }
  here.run();
  if (failure) {
    std::rethrow_exception(failure);
  }
  return std::move(*result);
}

}  // namespace cairn::training
