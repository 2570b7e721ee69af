// SPDX-License-Identifier: Apache-2.0
#include "support/sync_wait.hpp"

#include <memory>

#include <boost/asio/co_spawn.hpp>

#include "cairn/base/error.hpp"

#include "async/internal/event.hpp"

namespace cairn::testing {
namespace {

/// Makes `event` fail when the task is destroyed before it ends, so that nobody waits for it for ever.
struct FailWhenDropped {
  explicit FailWhenDropped(async::Event watched) : event(std::move(watched)) {}

  ~FailWhenDropped() {
    event.fail(
        std::make_exception_ptr(Error(Errc::closed, "the executor is gone")));  // When it has not ended.
  }

  FailWhenDropped(const FailWhenDropped&) = delete;
  FailWhenDropped& operator=(const FailWhenDropped&) = delete;

  const async::Event event;
};

}  // namespace

async::Event start(const Executor& executor, Awaitable<> task) {
  async::Event ended;
  boost::asio::co_spawn(executor, std::move(task),
                        [dropped = std::make_shared<FailWhenDropped>(ended)](std::exception_ptr failure) {
                          dropped->event.complete(std::move(failure));
                        });
  return ended;
}

}  // namespace cairn::testing
