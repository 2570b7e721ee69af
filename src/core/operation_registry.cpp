// SPDX-License-Identifier: Apache-2.0
#include "core/operation_registry.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"
#include "core/operation.hpp"

namespace cairn::core {
namespace {

/// In real time, beyond the grace.
constexpr std::chrono::seconds kTelling{1};

coord::Coordinator& coordinator_of(const ContextOptions& options) {
  return options.coordinator ? *options.coordinator : *coord::single_process();
}

}  // namespace

void OperationRegistry::require_open() const {
  if (is_closed_) {
    throw Error(Errc::closed, "the context was closed");
  }
}

void OperationRegistry::enter(const std::shared_ptr<Operation>& operation) {
  const MutexLock lock(mutex_);
  require_open();
  CAIRN_ASSERT(std::find(operations_.begin(), operations_.end(), operation) == operations_.end(),
               "an operation enters once");
  operations_.push_back(operation);
}

void OperationRegistry::leave(const Operation* operation) {
  const MutexLock lock(mutex_);
  CAIRN_ASSERT(std::count_if(operations_.begin(), operations_.end(),
                             [operation](const auto& entered) { return entered.get() == operation; }) == 1,
               "an operation that leaves has entered");
  std::erase_if(operations_, [operation](const auto& entered) { return entered.get() == operation; });
}

void OperationRegistry::enter(Call call) {
  const MutexLock lock(mutex_);
  require_open();
  std::erase_if(calls_, [](const Call& earlier) { return earlier.ended.has_happened(); });
  calls_.push_back(std::move(call));
}

void OperationRegistry::lose(const std::string& path, const std::exception_ptr& failure) {
  CAIRN_ASSERT(failure != nullptr, "a failure that is lost is one");
  CAIRN_PROBE("core.failure_lost");
  {
    const MutexLock lock(mutex_);
    if (!lost_) {
      lost_ = failure;
    }
  }
  if (options_.on_lost_failure) {
    options_.on_lost_failure(path, failure);
  }
}

bool OperationRegistry::wait_for_all(Operations running, std::span<const Call> calls,
                                     std::chrono::nanoseconds timeout) const {
  const auto deadline = later(clock_.steady_now(), timeout);
  const auto is_told = [&](const async::Event& told) {
    return coord::wait_with_progress_until(coordinator_of(options_), told, deadline, clock_);
  };
  return std::all_of(running.begin(), running.end(),
                     [&](const auto& operation) { return is_told(operation->told()); }) &&
         std::all_of(calls.begin(), calls.end(), [&](const Call& call) { return is_told(call.told); });
}

void OperationRegistry::stop(Operations running) {
  for (const auto& operation : running) {
    operation->stop(Errc::closed, "the context was closed before this ended");
  }
}

void OperationRegistry::stop_all(Operations running) const {
  CAIRN_PROBE("core.closed_before_all_ended");
  stop(running);
  static_cast<void>(wait_for_all(running, {}, options_.stop_grace));
  // It is decided now how they end: to do so, and to tell all who listen, takes no time but what the machine needs
  // for it.
  const auto wait_for = [this](const async::Event& event) {
    static_cast<void>(coord::wait_with_progress(coordinator_of(options_), event, kTelling, system_clock()));
  };
  for (const auto& operation : running) {
    wait_for(operation->decided());
    if (operation->answered().has_happened()) {
      wait_for(operation->told());
    }
  }
}

std::exception_ptr OperationRegistry::close() {
  std::vector<std::shared_ptr<Operation>> running;
  std::vector<Call> calls;
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    running = operations_;
    calls = calls_;
  }
  // At exit() on a thread that runs one of them: that cannot end before this has returned.
  const auto own = std::partition(running.begin(), running.end(),
                                  [](const auto& operation) { return !operation->runs_here(); });
  stop({own, running.end()});
  const Operations others(running.begin(), own);
  if (!wait_for_all(others, calls, options_.close_timeout)) {
    stop_all(others);
  }
  std::string still_running;
  const auto name = [&](const std::string& title) {
    still_running += fmt::format("{}{}", still_running.empty() ? "" : ", ", title);
  };
  for (const auto& operation : running) {
    if (!operation->is_done()) {
      name(fmt::format("{} (waits for {})", operation->title(), operation->waits_for()));
    }
  }
  for (const Call& call : calls) {
    if (!call.ended.has_happened()) {
      name(call.title);
    }
  }
  const MutexLock lock(mutex_);
  if (lost_ || still_running.empty()) {
    return std::exchange(lost_, nullptr);
  }
  return std::make_exception_ptr(
      Error(Errc::still_running,
            fmt::format("the context was closed, but these are still running: {}", still_running)));
}

}  // namespace cairn::core
