// SPDX-License-Identifier: Apache-2.0
#include "training/call_time.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/require_timeout.hpp"

namespace cairn::training {

CallTime::CallTime(const Clock& clock, const std::filesystem::path& root, std::optional<std::uint64_t> step,
                   Timeout deadline, Timeout join_timeout)
    : clock_(clock),
      root_(root),
      step_(step),
      begin_(clock.steady_now()),
      deadline_(deadline),
      join_timeout_(join_timeout) {
  if (std::min<std::chrono::nanoseconds>(deadline_, join_timeout_).count() < 0) {
    require_not_negative(deadline_, fmt::format("{}: the deadline", what()));
    require_not_negative(join_timeout_, fmt::format("{}: join_timeout", what()));
  }
}

std::string CallTime::what() const {
  return step_ ? fmt::format("step {} of {}", *step_, root_.string())
               : fmt::format("resume of {}", root_.string());
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
  throw Error(Errc::timed_out, fmt::format("{}: not done after {:.3f} s{}{}", what(),
                                           std::chrono::duration<double>(deadline_).count(),
                                           missing.count == 0 ? "" : "; still waiting for ",
                                           missing.count == 0 ? "" : to_string(missing)));
}

}  // namespace cairn::training
