// SPDX-License-Identifier: Apache-2.0
#include "training/rank_decisions.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "coord/internal/borrowed_caller_thread.hpp"
#include "training/await_here.hpp"

namespace cairn::training {
namespace {

/// Steps ahead that a policy is asked about at once, which takes a millisecond at most; then ranks look again.
constexpr std::uint64_t kHorizon = 10'000;
constexpr char kSave = 's';
constexpr char kLook = 'l';

// What ranks say of a save: a word, its number; its step, or what is next.
constexpr std::string_view kAsk = "ask";
constexpr std::string_view kNext = "next";
constexpr std::string_view kWait = "wait";

/// What is asked may be lost, or rank 0 may not know yet: it is asked again.
constexpr std::chrono::milliseconds kAskAgain{100};
/// All ranks hear an answer: so often is enough, however many ask.
constexpr std::chrono::milliseconds kAnswerAgain{50};

constexpr std::uint64_t kLastStep = std::numeric_limits<std::uint64_t>::max();

/// Returns `step + more`, or the last step number where the sum would be beyond it.
std::uint64_t later_step(std::uint64_t step, std::uint64_t more) {
  return step + std::min(more, kLastStep - step);
}

/// Takes what comes before the next blank.
std::string_view take_part(std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

std::uint64_t number_in(std::string_view text) {
  return std::strtoull(std::string(text).c_str(), nullptr, 10);
}

/// Returns the part of a moment that every rank sees alike.
SaveMoment alike(const SaveMoment& here, bool is_preempted) {
  SaveMoment moment;
  moment.step = here.step;
  moment.steps = here.steps;
  moment.is_preempted = is_preempted;
  return moment;
}

}  // namespace

std::string RankDecisions::encode(const Named& named) {
  return fmt::format("{}{}", named.is_save ? kSave : kLook, named.step);
}

RankDecisions::Named RankDecisions::decode(std::string_view text) {
  return {text.front() == kSave, number_in(text.substr(1))};
}

RankDecisions::RankDecisions(const SavePolicy& policy, const PreemptionGuard* preemption,
                             coord::Coordinator& coordinator, const Clock& clock, std::uint64_t margin,
                             const std::filesystem::path& root)
    : policy_(policy),
      coordinator_(coordinator),
      clock_(clock),
      topic_("cairn.training " + root.string()),
      words_topic_("cairn.training words " + root.string()),
      preempted_(preemption, coordinator, margin, topic_),
      listening_(coordinator_.listen(words_topic_, [this](std::size_t /*from*/, std::string_view text) {
        coordinator_.rank() == 0 ? hear_question(text) : hear_answer(text);
      })) {}

bool RankDecisions::decide(const SaveMoment& here, bool is_forced) {
  const bool is_preempted = preempted_.is_at(here.step);  // Asked at each step: it must not pass unseen.
  if (is_forced) {
    return true;
  }
  if (is_preempted) {
    return policy_(alike(here, true));
  }
  return policy_.asks_time() ? decide_by_time(here) : policy_(alike(here, false));
}

// Times.

bool RankDecisions::decide_by_time(const SaveMoment& here) {
  std::optional<Named> next = wait_for_word();
  if (next && here.step < next->step) {
    return false;
  }
  if (!next || !next->is_save) {
    look(here);
    const MutexLock lock(mutex_);
    next = next_;
  }
  return next->is_save && here.step >= next->step;
}

bool RankDecisions::is_word_coming() const {
  return is_running_ ||
         coordinator_.rank() == 0;  // There it is settled by the end of the save, if not before.
}

std::optional<RankDecisions::Named> RankDecisions::wait_for_word() {
  MutexLock lock(mutex_);
  const auto is_known = [this]() CAIRN_REQUIRES(mutex_) { return next_ || number_ == 0; };
  answered_ = std::chrono::steady_clock::now();
  while (!is_known()) {
    const bool asks = !is_word_coming();
    const auto now = std::chrono::steady_clock::now();
    if (!asks) {
      answered_ = now;
    } else if (now - answered_ > coordinator_.lost_after()) {
      throw Error(
          Errc::peer_failed,
          fmt::format("rank 0 does not say at which step to save after step {}, whose save has failed",
                      step_));
    }
    const std::string question = fmt::format("{} {} {}", kAsk, number_, step_);
    const async::Event changed = changed_;
    lock.unlock();
    if (asks) {
      coordinator_.notify(words_topic_, question);
    }
    static_cast<void>(coord::wait_with_progress(coordinator_, changed, kAskAgain, system_clock()));
    lock.lock();
  }
  return next_;
}

void RankDecisions::wake_waiter() {
  std::exchange(changed_, async::Event()).set();
}

/// On rank 0.
void RankDecisions::hear_question(std::string_view text) {
  if (take_part(text) != kAsk) {
    return;
  }
  const std::uint64_t number = number_in(take_part(text));
  const std::uint64_t step = number_in(text);
  std::string answer;
  {
    const MutexLock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    const auto found = words_.find(number);
    if (number > number_ || (found != words_.end() && !found->second.is_settled)) {
      answer = fmt::format("{} {}", kWait, number);
    } else if (found != words_.end() && found->second.step == step) {
      answer = fmt::format("{} {} {}", kNext, number, encode(found->second.next));
    }
    if (answer.empty() || now - said_ < kAnswerAgain) {
      return;
    }
    said_ = now;
  }
  coordinator_.notify(words_topic_, answer);
}

/// On the others.
void RankDecisions::hear_answer(std::string_view text) {
  const std::string_view word = take_part(text);
  const std::uint64_t number = number_in(take_part(text));
  if (word == kNext) {
    hear(number, text);
  }
  const MutexLock lock(mutex_);
  answered_ = std::chrono::steady_clock::now();
}

void RankDecisions::look(const SaveMoment& here) {
  coord::Session session = coordinator_.join();
  coord::Channel channel = session.channel(topic_);
  if (coordinator_.rank() != 0) {
    const std::string word = await_here(coordinator_, channel.broadcast(""));
    const MutexLock lock(mutex_);
    next_ = decode(word);
  } else {
    try {
      coord::rest(coordinator_);  // The policy may think.
      measure_steps(here.step);
      ++looks_;
      const Named next = find_next(here, here.step);
      await_here(coordinator_, channel.broadcast(encode(next)));
      const MutexLock lock(mutex_);
      next_ = next;
    } catch (...) {
      session.fail(std::current_exception());
      throw;
    }
  }
  session.leave_later();
}

void RankDecisions::measure_steps(std::uint64_t step) {
  const auto now = clock_.steady_now();
  if (mark_ && step > mark_->first) {
    step_time_ = std::chrono::nanoseconds(now - mark_->second) /
                 static_cast<std::int64_t>(std::min<std::uint64_t>(step - mark_->first, INT64_MAX));
  }
  mark_ = {step, now};
}

RankDecisions::Named RankDecisions::find_next(const SaveMoment& moment, std::uint64_t first) const {
  std::optional<std::chrono::nanoseconds> save_time;
  {
    const MutexLock lock(mutex_);
    save_time = save_time_;
  }
  SaveMoment ahead = moment;
  ahead.is_preempted = false;
  const std::uint64_t last = later_step(first, kHorizon - 1);
  for (std::uint64_t step = first;; ++step) {
    const std::uint64_t steps = step - moment.step;
    if (steps > 0 && !step_time_) {
      return look_at(step);
    }
    const auto time = step_time_.value_or(std::chrono::nanoseconds(0)) * static_cast<std::int64_t>(steps);
    ahead.step = step;
    ahead.now = moment.now + time;
    if (moment.since_last_save) {
      ahead.since_last_save = *moment.since_last_save + time;
    }
    if (moment.is_saving && steps > 0) {
      if (!save_time) {  // Nobody knows how long it will take: later and later looks.
        return look_at(later_step(moment.step, std::uint64_t{1} << std::min<std::uint64_t>(looks_, 20)));
      }
      ahead.is_saving = ahead.since_last_save.value_or(time) < *save_time;
    }
    try {
      if (policy_(ahead)) {
        return {true, step};
      }
    } catch (...) {
      if (steps == 0) {
        throw;
      }
      return look_at(step);
    }
    if (step == last) {
      return look_at(later_step(last, 1));
    }
  }
}

// Saves.

std::uint64_t RankDecisions::open_save(std::uint64_t step) {
  const MutexLock lock(mutex_);
  if (policy_.asks_time()) {
    if (coordinator_.rank() == 0) {
      words_[number_ + 1].step = step;
    }
    ++number_;
    step_ = step;
    is_running_ = true;
    next_.reset();
  }
  return number_;
}

std::string RankDecisions::begin_save(std::uint64_t number, const SaveMoment& here) {
  if (!policy_.asks_time() || coordinator_.rank() != 0) {
    return {};
  }
  measure_steps(here.step);
  looks_ = 0;
  std::vector<std::uint64_t> steps(here.steps.begin(), here.steps.end());
  const auto place = std::lower_bound(steps.begin(), steps.end(), here.step);
  if (place == steps.end() || *place != here.step) {
    steps.insert(place, here.step);
  }
  SaveMoment begun = here;
  begun.steps = steps;
  begun.is_saving = true;
  begun.since_last_save = std::chrono::nanoseconds(0);
  const Named next = here.step == kLastStep ? look_at(kLastStep) : find_next(begun, here.step + 1);
  const MutexLock lock(mutex_);
  words_[number].next = next;
  return encode(next);
}

void RankDecisions::hear(std::uint64_t number, std::string_view word) {
  if (!policy_.asks_time()) {
    return;
  }
  const MutexLock lock(mutex_);
  if (coordinator_.rank() == 0) {
    const auto found = words_.find(number);
    if (found == words_.end() || found->second.is_settled) {
      throw Error(Errc::closed, "the save has failed before all ranks had agreed on it");
    }
    found->second.is_settled = true;
    words_.erase(words_.begin(), found);  // All ranks have come to this save, and ask for no earlier word.
    if (number == number_) {
      next_ = found->second.next;
    }
  } else if (number == number_ && !next_ && !word.empty()) {
    next_ = decode(word);
  }
  wake_waiter();
}

void RankDecisions::end_save(std::uint64_t number, std::uint64_t step,
                             std::optional<std::chrono::nanoseconds> duration) noexcept {
  try {
    if (!duration) {
      preempted_.propose_again(step);
    }
    const std::string word = settle(number, duration);
    if (!word.empty()) {
      coordinator_.notify(words_topic_, word);  // Those that ask already need not wait.
    }
  } catch (...) {  // No memory for what is said at once: it is said when it is asked for.
  }
}

void RankDecisions::go_back(std::uint64_t step) {
  preempted_.go_back(step);
  const MutexLock lock(mutex_);
  next_ = look_at(0);
}

/// Returns what to tell the others.
std::string RankDecisions::settle(std::uint64_t number, std::optional<std::chrono::nanoseconds> duration) {
  const MutexLock lock(mutex_);
  wake_waiter();
  if (number == number_) {
    is_running_ = false;
  }
  if (duration) {
    save_time_ = duration;
  }
  const auto found = words_.find(number);
  if (found == words_.end() || found->second.is_settled) {
    return {};
  }
  Word& word = found->second;
  word.is_settled = true;
  word.next = look_at(later_step(word.step, 1));
  if (number == number_) {
    next_ = word.next;
  }
  return fmt::format("{} {} {}", kNext, number, encode(word.next));
}

}  // namespace cairn::training
