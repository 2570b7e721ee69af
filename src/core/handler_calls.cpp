// SPDX-License-Identifier: Apache-2.0
#include "core/handler_calls.hpp"

#include <memory>
#include <string>
#include <utility>

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "cairn/contract/save_context.hpp"

#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"

namespace cairn::core {
namespace {

/// "/data/run/7: 'point' (handler example.point/1)": who failed, for messages.
std::string who(const SaveFiles& files, const SaveItem& item) {
  return fmt::format("{}: '{}' (handler {})", files.place(), item.checkpointable.name(), item.handler_id);
}

}  // namespace

std::vector<Awaitable<>> HandlerCalls::stage() {
  CAIRN_ASSERT(backgrounds_.empty(), "each handler is called once");
  backgrounds_.resize(files_.items().size());
  std::vector<Awaitable<>> phases;
  for (std::size_t i = 0; i < backgrounds_.size(); ++i) {
    phases.push_back(stage_item(i));
  }
  return phases;
}

Awaitable<> HandlerCalls::stage_item(std::size_t index) {
  const SaveItem& item = files_.items()[index];
  if (!ranks_.is_primary() && !item.is_of_all_ranks()) {
    backgrounds_[index].emplace(Background<>());
    co_return;
  }
  std::exception_ptr failure;
  try {
    SaveContext context(std::shared_ptr<SaveFiles>(operation_.shared_from_this(), &files_),
                        item.checkpointable.name(), item.directory);
    const void* value = item.checkpointable.value();
    if (checks_ != nullptr) {
      value = checks_->hand_over(index, item.checkpointable, *item.registration.handler);
    }
    Awaitable<Background<>> blocking = item.registration.handler->save(std::move(context), value);
    async::require_coroutine(blocking, "'save'");
    backgrounds_[index].emplace(co_await std::move(blocking));
    if (checks_ != nullptr) {
      checks_->watch(index);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    // Not in a coroutine of its own: to await one throws where this one was cancelled.
    const boost::asio::cancellation_state state = co_await boost::asio::this_coro::cancellation_state;
    const Asked asked = asked_of(state, operation_.is_stopped());
    rethrow(failure, item, asked);
  }
}

std::vector<Awaitable<>> HandlerCalls::finish() {
  std::vector<Awaitable<>> phases;
  for (std::size_t i = 0; i < backgrounds_.size(); ++i) {
    phases.push_back(finish_item(i));
  }
  return phases;
}

Awaitable<> HandlerCalls::finish_item(std::size_t index) {
  const SaveItem& item = files_.items()[index];
  CAIRN_ASSERT(backgrounds_[index].has_value(), "a background phase follows a blocking phase that has ended");
  Background<> background = std::move(*backgrounds_[index]);
  const bool has_background = background.valid();
  std::exception_ptr failure;
  try {
    if (has_background) {
      co_await std::move(background);
    }
    files_.require_complete(item, has_background ? "" : "; the handler returned an empty background");
  } catch (...) {
    failure = std::current_exception();
  }
  if (checks_ != nullptr) {
    failure = checks_->judge(index, std::move(failure));
  }
  if (failure) {
    const boost::asio::cancellation_state state = co_await boost::asio::this_coro::cancellation_state;
    const Asked asked = asked_of(state, operation_.is_stopped());
    rethrow(failure, item, asked);
  }
}

void HandlerCalls::rethrow(const std::exception_ptr& failure, const SaveItem& item, Asked asked) const {
  // Why it was stopped says the same, and the save's name. Where it was not yet, SaveRanks::end adds that.
  if (ranks_.is_of_all(failure)) {
    std::rethrow_exception(asked == Asked::to_stop ? async::cancelled() : failure);
  }
  rethrow_of(failure, who(files_, item), asked);
}

void HandlerCalls::judge(SaveFiles& files, const HandlerChecks& checks) {
  for (std::size_t i = 0; i < files.items().size(); ++i) {
    if (auto failure = checks.judge(i, nullptr)) {
      rethrow_of(failure, who(files, files.items()[i]), Asked::nothing);
    }
  }
  files.add_problem(checks.not_checked());
}

}  // namespace cairn::core
