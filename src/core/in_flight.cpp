// SPDX-License-Identifier: Apache-2.0
#include "core/in_flight.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "coord/internal/lent_thread.hpp"
#include "core/operation.hpp"

namespace cairn::core {
namespace {

/// In real time, beyond the grace.
constexpr std::chrono::seconds kTelling{1};

}  // namespace

void InFlight::enter(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    throw Error(Errc::closed, "the context was closed");
  }
  operations_.push_back(operation);
}

void InFlight::leave(const Operation* operation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(operations_, [operation](const auto& entered) { return entered.get() == operation; });
}

void InFlight::lose(const std::string& path, const std::exception_ptr& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_) {
      lost_ = failure;
    }
  }
  if (options_.on_lost_failure) {
    options_.on_lost_failure(path, failure);
  }
}

bool InFlight::wait_for_all(Operations running, std::chrono::nanoseconds timeout) const {
  const auto deadline = later(clock_.steady_now(), timeout);
  return std::all_of(running.begin(), running.end(), [&](const auto& operation) {
    const auto now = clock_.steady_now();
    const auto left = deadline > now ? deadline - now : std::chrono::nanoseconds::zero();
    const bool is_endless = deadline == std::chrono::steady_clock::time_point::max();
    return coord::wait_lent(operation->services().coordinator, operation->told(),
                            is_endless ? std::chrono::nanoseconds::max() : left, clock_);
  });
}

void InFlight::stop_all(Operations running) const {
  for (const auto& operation : running) {
    operation->stop(Errc::closed, "the context was closed before this ended");
  }
  static_cast<void>(wait_for_all(running, options_.stop_grace));
  // It is decided now how they end: to do so, and to tell all who listen, takes no time but what the machine needs for it.
  for (const auto& operation : running) {
    static_cast<void>(operation->decided().wait_for(kTelling));
    if (operation->answered().has_happened()) {
      static_cast<void>(operation->told().wait_for(kTelling));
    }
  }
}

std::exception_ptr InFlight::close() {
  std::vector<std::shared_ptr<Operation>> running;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    running = operations_;
  }
  if (!wait_for_all(running, options_.close_timeout)) {
    stop_all(running);
  }
  std::string still_running;
  for (const auto& operation : running) {
    if (!operation->is_done()) {
      still_running += fmt::format("{}{}", still_running.empty() ? "" : ", ", operation->title());
    }
  }
  const std::lock_guard lock(mutex_);
  if (lost_ || still_running.empty()) {
    return std::exchange(lost_, nullptr);
  }
  return std::make_exception_ptr(Error(
      Errc::still_running, fmt::format("the context was closed, but not all has ended: {}", still_running)));
}

}  // namespace cairn::core
