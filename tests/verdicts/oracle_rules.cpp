// SPDX-License-Identifier: Apache-2.0
// Which errors an operation may end with, and why not.
#include <algorithm>

#include "verdicts/oracle.hpp"

namespace cairn::verdicts {

bool Oracle::has_later_in_series(const Call& call, std::uint64_t number) const {
  const auto series = targets_[call.asked.target].path.parent_path();
  return std::any_of(calls_.upper_bound(number), calls_.end(), [&](const auto& entry) {
    const Call& other = entry.second;
    return !other.is_load && !other.is_removal && other.asked.coalesce &&
           targets_[other.asked.target].path.parent_path() == series;
  });
}

std::string Oracle::objection(std::uint64_t number, const std::exception_ptr& failure) const {
  const Call& call = calls_.at(number);
  const testing::TargetHistory& history = targets_[call.asked.target].history;
  const auto code = code_of(failure);
  const bool has_deadline = call.asked.deadline > Duration::zero();
  const bool is_disturbed = system_.failures() + system_.lost_answers() > call.failures;
  if (!code) {
    return "it is no cairn::Error";
  }
  if (code->category() == std::system_category()) {
    return is_disturbed ? "" : "no call of the system has failed";
  }
  switch (static_cast<Errc>(code->value())) {
    case Errc::timed_out:
      return has_deadline && clock_.steady_now() >= call.called + call.asked.deadline
                 ? ""
                 : "its deadline has not passed";
    case Errc::cancelled:
      return call.may_stop ? "" : "nobody has cancelled it";
    case Errc::closed:
      return call.close_limit || call.asked.must_be_refused ? "" : "nobody has closed the context";
    case Errc::superseded:
      return call.asked.coalesce && has_later_in_series(call, number) ? "" : "it has not been superseded";
    case Errc::already_exists:
      return !call.asked.overwrite && history.may_have_existed_for(number) ? "" : "there was nothing";
    case Errc::commit_unknown:
      return is_disturbed || has_deadline || call.may_stop || call.close_limit ? "" : "there was no reason";
    case Errc::handler_failed:
      return call.asked.fails_by_itself ? "" : "its handler did not fail";
    case Errc::not_found:
      return (call.is_load || call.is_removal) && history.may_be_absent(call.since) ? "" : "it was there";
    default:
      return "no rule allows this code";
  }
}

}  // namespace cairn::verdicts
