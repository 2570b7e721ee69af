// SPDX-License-Identifier: Apache-2.0
#include "verdicts/oracle.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace cairn::verdicts {
namespace {

/// How late an answer may be on the machine's own clock, which does not stand still while others work.
constexpr std::chrono::seconds kSlack{5};

std::string words(const std::exception_ptr& failure) {
  return failure ? describe(failure) : "success";
}

bool is_code(const std::exception_ptr& failure, Errc code) {
  return code_of(failure) == make_error_code(code);
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Oracle::Oracle(Journal& journal, const HarnessClock& clock, const SlowCalls& calls, Observer& observer,
               const std::vector<std::filesystem::path>& targets, const Program& program)
    : journal_(journal), clock_(clock), system_(calls), observer_(observer), grace_(program.grace) {
  for (const auto& path : targets) {
    targets_.push_back({path, program.element_count(targets_.size()), {}, 0});
  }
}

std::uint64_t Oracle::begin(const Asked& asked, bool is_removal, bool is_load) {
  const std::lock_guard lock(mutex_);
  Call call;
  call.asked = asked;
  call.is_removal = is_removal;
  call.is_load = is_load;
  call.called = clock_.steady_now();
  call.floor = targets_[asked.target].floor;
  call.failures = system_.failures() + system_.lost_answers();
  calls_.emplace(++last_, call);
  if (!is_load) {
    targets_[asked.target].calls.push_back(last_);
  }
  return last_;
}

std::uint64_t Oracle::begin_save(const Asked& asked) {
  return begin(asked, false, false);
}

std::uint64_t Oracle::begin_load(const Asked& asked) {
  return begin(asked, false, true);
}

std::uint64_t Oracle::begin_removal(std::size_t target) {
  Asked asked;
  asked.target = target;
  return begin(asked, true, false);
}

void Oracle::ask_stop(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  Call& call = calls_.at(number);
  call.may_stop = true;
  if (!call.stop_limit) {
    call.stop_limit = clock_.steady_now() + grace_;
  }
}

void Oracle::allow_stop(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  calls_.at(number).may_stop = true;
}

void Oracle::ask_close(Moment limit) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, call] : calls_) {
    if (call.state == State::open && !call.close_limit) {
      call.close_limit = limit;
    }
  }
}

std::string Oracle::title(std::uint64_t number) const {
  const Call& call = calls_.at(number);
  return fmt::format("{} {} of {}",
                     call.is_load      ? "load"
                     : call.is_removal ? "removal"
                                       : "save",
                     number, targets_[call.asked.target].path.filename().string());
}

bool Oracle::holds_nothing(std::uint64_t number) const {
  return number == 0 || calls_.at(number).is_removal;
}

void Oracle::check_time(std::uint64_t number, Moment waited_since) {
  const Call& call = calls_.at(number);
  Moment limit = Moment::max();
  const auto bound = [&](Moment moment) { limit = std::min(limit, moment); };
  if (call.asked.deadline > Duration::zero()) {
    bound(call.called + call.asked.deadline + grace_);
  }
  bound(call.stop_limit.value_or(Moment::max()));
  bound(call.close_limit.value_or(Moment::max()));
  if (limit == Moment::max()) {
    return;
  }
  constexpr Duration kLongestAccess = std::chrono::seconds(6);  // Calls of the system; see kCallsWithMemory.
  if (call.asked.uses_memory && kLongestAccess > grace_) {
    limit += kLongestAccess - grace_;
  }
  limit = std::max(limit, waited_since) + (clock_.is_manual() ? Duration::zero() : Duration(kSlack));
  if (const Moment now = clock_.steady_now(); now > limit) {
    journal_.lie("late", fmt::format("{} was answered {:.3f} s late", title(number), seconds(now - limit)));
  }
}

void Oracle::end_save(std::uint64_t number, const std::exception_ptr& failure, Moment waited_since) {
  const std::lock_guard lock(mutex_);
  Call& call = calls_.at(number);
  journal_.note(fmt::format("{}: {}", title(number), words(failure)));
  journal_.count(failure ? "saves: " + code_of(failure).value_or(std::error_code()).message()
                         : "saves: committed");
  check_time(number, waited_since);
  Target& target = targets_[call.asked.target];
  if (!failure) {
    if (call.asked.must_be_refused) {
      journal_.lie("verdict", title(number) + " was accepted by a context that is closed");
    }
    if (!call.asked.overwrite && !may_be_absent(target, call.floor)) {
      journal_.lie("verdict", title(number) + " has replaced what it was not to replace");
    }
    call.state = State::done;
    target.floor = std::max(target.floor, number);
  } else {
    if (const std::string why = objection(number, failure); !why.empty()) {
      journal_.lie("verdict", fmt::format("{}: \"{}\", but {}", title(number), words(failure), why));
    }
    call.state = is_code(failure, Errc::commit_unknown) ? State::unknown : State::failed;
    if (call.state == State::failed && call.was_seen) {
      journal_.lie("zombie", title(number) + " was visible before it failed: " + words(failure));
    }
  }
  look_at(call.asked.target, false);
}

void Oracle::end_removal(std::uint64_t number, const std::exception_ptr& failure, Moment waited_since) {
  const std::lock_guard lock(mutex_);
  Call& call = calls_.at(number);
  journal_.note(fmt::format("{}: {}", title(number), words(failure)));
  check_time(number, waited_since);
  Target& target = targets_[call.asked.target];
  if (!failure) {
    call.state = State::done;
    target.floor = std::max(target.floor, number);
    if (!may_have_existed(call, number)) {
      journal_.lie("verdict", title(number) + " has removed what was not there");
    }
  } else {
    const bool was_refused = is_code(failure, Errc::not_found);
    call.state = was_refused ? State::failed : State::unknown;
    if (const std::string why = objection(number, failure); !why.empty()) {
      journal_.lie("verdict", fmt::format("{}: \"{}\", but {}", title(number), words(failure), why));
    }
  }
  look_at(call.asked.target, false);
}

void Oracle::end_load(std::uint64_t number, std::optional<std::uint64_t> value,
                      const std::exception_ptr& failure, Moment waited_since) {
  const std::lock_guard lock(mutex_);
  Call& call = calls_.at(number);
  journal_.note(
      fmt::format("{}: {}", title(number), value ? fmt::format("save {}", *value) : words(failure)));
  journal_.count(failure ? "loads: " + code_of(failure).value_or(std::error_code()).message()
                         : "loads: loaded");
  check_time(number, waited_since);
  call.state = failure ? State::failed : State::done;
  if (!failure && value) {
    // It was there at some moment since the call: that is what the floor of then says.
    const auto found = calls_.find(*value);
    if (*value < call.floor || found == calls_.end() || found->second.is_removal ||
        found->second.asked.target != call.asked.target || found->second.state == State::failed) {
      journal_.lie("load", fmt::format("{} gave {}", title(number), *value));
    } else {
      found->second.was_seen = true;
      Target& target = targets_[call.asked.target];
      target.floor = std::max(target.floor, *value);
    }
    return;
  }
  if (const std::string why = failure ? objection(number, failure) : ""; !why.empty()) {
    journal_.lie("verdict", fmt::format("{}: \"{}\", but {}", title(number), words(failure), why));
  }
}

void Oracle::look_at(std::size_t number, bool thoroughly) {
  const std::lock_guard lock(mutex_);
  const Observer::Holder holder =
      observer_.look_at(targets_[number].path, targets_[number].element_count, thoroughly);
  const std::string who = targets_[number].path.filename().string();
  if (!holder.problem.empty()) {
    journal_.lie("damage", fmt::format("{}: {}", who, holder.problem));
    return;
  }
  check_holder(number, holder.number, who);
}

void Oracle::check_holder(std::size_t number, std::optional<std::uint64_t> holder, const std::string& who) {
  Target& target = targets_[number];
  if (!holder) {
    if (!may_be_absent(target, target.floor)) {
      journal_.lie("lost",
                   fmt::format("{} holds nothing, but {} is there for sure", who, title(target.floor)));
    }
    return;
  }
  const auto found = calls_.find(*holder);
  if (found == calls_.end() || found->second.asked.target != number || found->second.is_load ||
      found->second.is_removal) {
    journal_.lie("damage", fmt::format("{} holds {}, which nobody has saved there", who, *holder));
    return;
  }
  Call& call = found->second;
  if (call.state == State::failed) {
    journal_.lie("zombie", fmt::format("{} holds {}, which has failed", who, title(*holder)));
  }
  if (*holder < target.floor) {
    journal_.lie("order",
                 fmt::format("{} holds {}, but {} came later", who, title(*holder), title(target.floor)));
  }
  call.was_seen = true;
  target.floor = std::max(target.floor, *holder);
}

bool Oracle::may_exist(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  const Target& target = targets_[number];
  return !holds_nothing(target.floor) || is_busy(number);
}

bool Oracle::is_busy(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  const Target& target = targets_[number];
  return std::any_of(target.calls.begin(), target.calls.end(),
                     [&](auto call) { return call > target.floor && calls_.at(call).state == State::open; });
}

bool Oracle::may_have_left_old(const std::string& target) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    const Call& call = entry.second;
    const bool may = call.state == State::open || call.state == State::unknown || call.has_problems;
    return may && !call.is_load && targets_[call.asked.target].path.filename() == target;
  });
}

bool Oracle::must_have_left_old(const std::string& target) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    const Call& call = entry.second;
    const Target& own = targets_[call.asked.target];
    return call.state == State::unknown && call.was_seen && !call.is_removal &&
           !may_be_absent(own, call.floor) && own.path.filename() == target;
  });
}

void Oracle::tell_problems(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  calls_.at(number).has_problems = true;
}

void Oracle::look_at_all() {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    look_at(i, true);
  }
}

}  // namespace cairn::verdicts
