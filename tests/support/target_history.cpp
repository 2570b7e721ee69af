// SPDX-License-Identifier: Apache-2.0
#include "support/target_history.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::testing {
namespace {

bool has_code(const std::exception_ptr& failure, Errc code) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == code;
  } catch (...) {
    return false;
  }
}

}  // namespace

Answer answer_of_save(const std::exception_ptr& failure) {
  if (!failure) {
    return Answer::done;
  }
  return has_code(failure, Errc::commit_unknown) ? Answer::unknown : Answer::failed;
}

Answer answer_of_removal(const std::exception_ptr& failure) {
  if (!failure) {
    return Answer::done;
  }
  // A removal that was late before it had begun never begins.
  const bool has_not_begun = has_code(failure, Errc::timed_out) &&
                             describe(failure).find("nothing was changed") != std::string::npos;
  return has_not_begun || has_code(failure, Errc::not_found) ? Answer::failed : Answer::unknown;
}

void TargetHistory::begin(Number number, bool is_removal, bool overwrites) {
  Call call;
  call.is_removal = is_removal;
  call.overwrites = overwrites;
  call.begun = now();
  calls_.emplace(number, call);
}

void TargetHistory::place(Number number) {
  Call& call = calls_.at(number);
  call.placed = call.placed.value_or(now());
}

void TargetHistory::settle() {
  for (auto& [number, call] : calls_) {
    call.placed = call.placed.value_or(now());
  }
}

void TargetHistory::restart(std::optional<Number> holder) {
  calls_.clear();
  if (holder) {
    begin_save(*holder);
    static_cast<void>(answer(*holder, Answer::done));
  }
}

std::string TargetHistory::title(Number number) const {
  return fmt::format("{} {} of {}", calls_.at(number).is_removal ? "removal" : "save", number, name_);
}

std::optional<Lie> TargetHistory::answer(Number number, Answer answer) {
  Call& call = calls_.at(number);
  call.answer = answer;
  place(number);
  if (answer == Answer::failed && call.was_seen) {
    return Lie{"zombie", title(number) + " was visible before it failed"};
  }
  if (answer != Answer::done) {
    return std::nullopt;
  }
  call.known = call.known.value_or(now());
  if (!call.overwrites && !may_have_been_absent_for(number)) {
    return Lie{"verdict", title(number) + " has replaced what it was not to replace"};
  }
  if (call.is_removal && !may_have_existed_for(number)) {
    return Lie{"verdict", title(number) + " has removed what was not there"};
  }
  return std::nullopt;
}

TargetHistory::Number TargetHistory::successor(const Call& call, Tick since) const {
  const auto found = std::find_if(calls_.begin(), calls_.end(), [&](const auto& entry) {
    const Call& other = entry.second;
    return other.known && *other.known < since && call.placed && *call.placed < other.begun;
  });
  return found == calls_.end() ? 0 : found->first;
}

std::optional<Lie> TargetHistory::see(std::optional<Number> holder, Tick since) {
  if (!holder) {
    return may_be_absent(since)
               ? std::nullopt
               : std::optional(Lie{"lost", name_ + " holds nothing, but something is there for sure"});
  }
  const auto found = calls_.find(*holder);
  if (found == calls_.end() || found->second.is_removal) {
    return Lie{"damage", fmt::format("{} holds {}, which nobody has saved there", name_, *holder)};
  }
  Call& call = found->second;
  if (call.answer == Answer::failed) {
    return Lie{"zombie", fmt::format("{} holds {}, which has failed", name_, title(*holder))};
  }
  if (const Number later = successor(call, since); later != 0) {
    return Lie{"order", fmt::format("{} holds {}, but {} came later", name_, title(*holder), title(later))};
  }
  call.was_seen = true;
  call.known = call.known.value_or(now());
  return std::nullopt;
}

bool TargetHistory::may_be_absent(Tick since) const {
  const bool is_new = std::none_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    return entry.second.known && *entry.second.known < since;
  });
  return is_new || std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
           const Call& call = entry.second;
           return call.is_removal && call.answer != Answer::failed && successor(call, since) == 0;
         });
}

bool TargetHistory::may_have_existed_for(Number number) const {
  const Call& asker = calls_.at(number);
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    const Call& call = entry.second;
    const bool is_after = asker.placed && *asker.placed < call.begun;
    return entry.first != number && !call.is_removal && !is_after && call.answer != Answer::failed &&
           successor(call, asker.begun) == 0;
  });
}

bool TargetHistory::may_have_been_absent_for(Number number) const {
  return may_be_absent(calls_.at(number).begun);
}

bool TargetHistory::is_busy() const {
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    return entry.second.answer == Answer::none && successor(entry.second, tick_ + 1) == 0;
  });
}

}  // namespace cairn::testing
