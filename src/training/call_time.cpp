// SPDX-License-Identifier: Apache-2.0
#include "training/call_time.hpp"

#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/require_timeout.hpp"

namespace cairn::training {

CallTime::CallTime(const Clock& clock, Timeout deadline, Timeout join_timeout, std::string what)
    : clock_(clock),
      begin_(clock.steady_now()),
      deadline_(deadline),
      join_timeout_(join_timeout),
      what_(std::move(what)) {
  require_not_negative(deadline_, fmt::format("{}: the deadline", what_));
  require_not_negative(join_timeout_, fmt::format("{}: join_timeout", what_));
}

Timeout CallTime::left() const {
  if (deadline_ == deadline_.zero()) {
    return {};
  }
  const std::chrono::nanoseconds rest = end() - clock_.steady_now();
  if (rest <= rest.zero()) {
    give_up({});
  }
  return rest;
}

void CallTime::give_up(const SomeRanks& missing) const {
  throw Error(Errc::timed_out, fmt::format("{}: not done after {:.3f} s{}{}", what_,
                                           std::chrono::duration<double>(deadline_).count(),
                                           missing.count == 0 ? "" : "; still waiting for ",
                                           missing.count == 0 ? "" : to_string(missing)));
}

}  // namespace cairn::training
