// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "cairn/async/awaitable.hpp"
#include "cairn/coord/coordinator.hpp"

#include "coord/internal/borrowed_caller_thread.hpp"
#include "training/call_time.hpp"

namespace cairn::training {

/// What the ranks of a training say to each other in one call, in a session of its own, and for as long as the call may
/// take. A rank whose time is over fails it on all.
///
/// Threads: one.
class RankTalk {
 public:
  /// `coordinator` and `time` outlive this. Destroyed without an end, it fails on all ranks.
  RankTalk(coord::Coordinator& coordinator, coord::SessionPurpose purpose, const CallTime& time)
      : coordinator_(coordinator),
        time_(time),
        session_(coordinator.join(std::move(purpose), time.join_timeout())) {}

  [[nodiscard]] std::uint64_t number() const noexcept { return session_.number(); }
  [[nodiscard]] coord::Channel channel(std::string_view name) const { return session_.channel(name); }

  /// Runs `task`, which waits for other ranks, on the calling thread, which it blocks until it has ended, and lends to
  /// the coordinator where that needs it. Returns its result, rethrows its failure.
  ///
  /// Errors: Errc::timed_out: names the ranks for which it waits.
  template <class T>
  T await(Awaitable<T> task) {
    boost::asio::io_context here(1);
    std::optional<T> result;
    std::exception_ptr failure;
    boost::asio::co_spawn(here, std::move(task), [&](std::exception_ptr why, T value) {
      failure = why;
      result = std::move(value);
    });
    coord::BorrowedCallerThread thread(coordinator_);
    for (bool is_too_late = false; !here.stopped();) {
      here.run_for(thread.is_wanted() ? thread.progress(false) : pause());
      if (!is_too_late && !here.stopped() && time_.is_over()) {
        fail_too_late();  // By that the task ends.
        is_too_late = true;
      }
    }
    if (failure) {
      std::rethrow_exception(failure);
    }
    return std::move(*result);
  }
  void await(Awaitable<> task) { await(done(std::move(task))); }

  /// Tells all that this rank has failed: with the exception that is being handled.
  void fail() const noexcept { session_.fail(std::current_exception()); }
  void end() noexcept { session_.leave_later(); }

 private:
  static Awaitable<bool> done(Awaitable<> task) {
    co_await std::move(task);
    co_return true;
  }

  /// Returns how long to wait at once: until the end, and no longer than that of a clock that is set by somebody. Never
  /// no time at all, in which Asio runs nothing: what has failed at the end has to be heard.
  [[nodiscard]] std::chrono::nanoseconds pause() const {
    constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(20);
    constexpr std::chrono::nanoseconds kShortest = std::chrono::milliseconds(1);
    if (time_.end() == CallTime::TimePoint::max()) {
      return std::chrono::hours(1);
    }
    const std::chrono::nanoseconds left = time_.end() - time_.clock().steady_now();
    return std::clamp(left, kShortest, kLongest);
  }

  void fail_too_late() const noexcept {
    try {
      time_.give_up(session_.missing());
    } catch (...) {
      fail();
    }
  }

  coord::Coordinator& coordinator_;
  const CallTime& time_;
  coord::Session session_;
};

}  // namespace cairn::training
