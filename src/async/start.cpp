// SPDX-License-Identifier: Apache-2.0
#include "async/internal/start.hpp"

#include <memory>

#include <boost/asio/co_spawn.hpp>

#include "cairn/base/error.hpp"

namespace cairn::async {
namespace {

/// Makes `event` fail when the task is destroyed before it ends, so that nobody waits for it for ever.
struct FailWhenDropped {
  explicit FailWhenDropped(Event watched) : event(std::move(watched)) {}

  ~FailWhenDropped() {
    event.fail(
        std::make_exception_ptr(Error(Errc::closed, "the executor is gone")));  // When it has not ended.
  }

  FailWhenDropped(const FailWhenDropped&) = delete;
  FailWhenDropped& operator=(const FailWhenDropped&) = delete;

  const Event event;
};

}  // namespace

Event start(const Executor& executor, Awaitable<> task) {
  Event ended;
  boost::asio::co_spawn(executor, std::move(task),
                        [dropped = std::make_shared<FailWhenDropped>(ended)](std::exception_ptr failure) {
                          dropped->event.complete(std::move(failure));
                        });
  return ended;
}

}  // namespace cairn::async
