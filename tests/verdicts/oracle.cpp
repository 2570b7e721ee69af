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

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Oracle::Oracle(Journal& journal, const HarnessClock& clock, const SlowCalls& calls, Observer& observer,
               const std::vector<std::filesystem::path>& targets, const Program& program)
    : journal_(journal), clock_(clock), system_(calls), observer_(observer), grace_(program.grace) {
  for (const auto& path : targets) {
    targets_.push_back(
        {path, program.element_count(targets_.size()), testing::TargetHistory(path.filename().string())});
  }
}

std::uint64_t Oracle::begin(const Asked& asked, bool is_removal, bool is_load) {
  const std::lock_guard lock(mutex_);
  Call call;
  call.asked = asked;
  call.is_removal = is_removal;
  call.is_load = is_load;
  call.called = clock_.steady_now();
  call.failures = system_.failures() + system_.lost_answers();
  testing::TargetHistory& history = targets_[asked.target].history;
  call.since = history.now();
  calls_.emplace(++last_, call);
  if (is_removal) {
    history.begin_removal(last_);
  } else if (!is_load) {
    history.begin_save(last_, asked.overwrite);
  }
  if (!is_load && asked.is_alone) {
    history.place(last_);
  }
  return last_;
}

std::uint64_t Oracle::begin_save(const Asked& asked) {
  return begin(asked, false, false);
}

std::uint64_t Oracle::begin_load(const Asked& asked) {
  return begin(asked, false, true);
}

std::uint64_t Oracle::begin_removal(const Asked& asked) {
  return begin(asked, true, false);
}

void Oracle::place(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  targets_[calls_.at(number).asked.target].history.place(number);
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
    if (call.answer == testing::Answer::none && !call.close_limit) {
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

Moment Oracle::limit_of(std::uint64_t number, Moment waited_since) const {
  const Call& call = calls_.at(number);
  Moment limit = Moment::max();
  const auto bound = [&](Moment moment) { limit = std::min(limit, moment); };
  if (call.asked.deadline > Duration::zero()) {
    bound(call.called + call.asked.deadline + grace_);
  }
  bound(call.stop_limit.value_or(Moment::max()));
  bound(call.close_limit.value_or(Moment::max()));
  if (limit == Moment::max()) {
    return limit;
  }
  constexpr Duration kLongestAccess = std::chrono::seconds(6);  // Calls of the system; see kCallsWithMemory.
  if (call.asked.uses_memory && kLongestAccess > grace_) {
    limit += kLongestAccess - grace_;
  }
  return std::max(limit, waited_since) + (clock_.is_manual() ? Duration::zero() : Duration(kSlack));
}

Moment Oracle::latest_answer(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return limit_of(number, clock_.steady_now());
}

void Oracle::check_time(std::uint64_t number, Moment waited_since) {
  const Moment limit = limit_of(number, waited_since);
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
  if (!failure && call.asked.must_be_refused) {
    journal_.lie("verdict", title(number) + " was accepted by a context that is closed");
  }
  if (const std::string why = failure ? objection(number, failure) : ""; !why.empty()) {
    journal_.lie("verdict", fmt::format("{}: \"{}\", but {}", title(number), words(failure), why));
  }
  call.answer = testing::answer_of_save(failure);
  check(targets_[call.asked.target].history.answer(number, call.answer));
  look_at(call.asked.target, false);
}

void Oracle::end_removal(std::uint64_t number, const std::exception_ptr& failure, Moment waited_since) {
  const std::lock_guard lock(mutex_);
  Call& call = calls_.at(number);
  journal_.note(fmt::format("{}: {}", title(number), words(failure)));
  check_time(number, waited_since);
  if (const std::string why = failure ? objection(number, failure) : ""; !why.empty()) {
    journal_.lie("verdict", fmt::format("{}: \"{}\", but {}", title(number), words(failure), why));
  }
  call.answer = testing::answer_of_removal(failure);
  check(targets_[call.asked.target].history.answer(number, call.answer));
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
  call.answer = failure ? testing::Answer::failed : testing::Answer::done;
  if (!failure && value) {
    // It was there at some moment since the call.
    const auto lie = targets_[call.asked.target].history.see(value, call.since);
    if (lie) {
      journal_.lie("load", fmt::format("{} gave {}: {}", title(number), *value, lie->what));
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
  check(targets_[number].history.see(holder.number));
}

void Oracle::check(const std::optional<testing::Lie>& lie) {
  if (lie) {
    journal_.lie(lie->kind, lie->what);
  }
}

bool Oracle::is_busy(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  return targets_[number].history.is_busy();
}

bool Oracle::may_have_left_old(const std::string& target) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    const Call& call = entry.second;
    const bool may =
        call.answer == testing::Answer::none || call.answer == testing::Answer::unknown || call.has_problems;
    return may && !call.is_load && targets_[call.asked.target].path.filename() == target;
  });
}

bool Oracle::must_have_left_old(const std::string& target) const {
  const std::lock_guard lock(mutex_);
  return !has_recovered_ && std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    const Call& call = entry.second;
    const Target& own = targets_[call.asked.target];
    return call.answer == testing::Answer::unknown && !call.is_removal && !call.is_load &&
           own.history.was_seen(entry.first) && !own.history.may_be_absent(call.since) &&
           own.path.filename() == target;
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
