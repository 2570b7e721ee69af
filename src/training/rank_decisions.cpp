// SPDX-License-Identifier: Apache-2.0
#include "training/rank_decisions.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "training/await_here.hpp"

namespace cairn::training {
namespace {

/// Steps ahead that a policy is asked about at once, which takes a millisecond at most; then ranks look again.
constexpr std::uint64_t kHorizon = 10'000;
constexpr char kSave = 's';
constexpr char kLook = 'l';

std::string encode(bool is_save, std::uint64_t step) {
  return fmt::format("{}{}", is_save ? kSave : kLook, step);
}

std::uint64_t number_in(std::string_view text) {
  return std::strtoull(std::string(text).c_str(), nullptr, 10);
}

/// What every rank sees alike.
SaveMoment alike(const SaveMoment& here, bool is_preempted) {
  SaveMoment moment;
  moment.step = here.step;
  moment.steps = here.steps;
  moment.is_preempted = is_preempted;
  return moment;
}

}  // namespace

RankDecisions::RankDecisions(const SavePolicy& policy, const PreemptionGuard* preemption,
                             Coordinator& coordinator, const Clock& clock, std::uint64_t margin,
                             const std::filesystem::path& root)
    : policy_(policy),
      coordinator_(coordinator),
      clock_(clock),
      topic_("cairn.training " + root.string()),
      preempted_(preemption, coordinator, margin, topic_) {}

bool RankDecisions::decide(const SaveMoment& here) {
  if (preempted_.is_at(here.step)) {
    return policy_(alike(here, true));
  }
  return policy_.asks_time() ? decide_by_time(here) : policy_(alike(here, false));
}

// Times.

bool RankDecisions::decide_by_time(const SaveMoment& here) {
  std::optional<Named> next;
  {
    std::unique_lock lock(mutex_);
    heard_.wait(lock, [this] { return !is_word_awaited_; });
    next = next_;
  }
  if (next && here.step < next->step) {
    return false;
  }
  if (!next || !next->is_save) {
    look(here);
    const std::lock_guard lock(mutex_);
    next = next_;
  }
  return next->is_save && here.step >= next->step;
}

void RankDecisions::look(const SaveMoment& here) {
  Conversation conversation = coordinator_.join();
  Subject subject = conversation.about(topic_);
  if (coordinator_.rank() != 0) {
    hear(await_here(coordinator_, subject.broadcast("")));
  } else {
    try {
      measure_steps(here.step);
      ++looks_;
      const Named next = find_next(here, here.step);
      const std::string word = encode(next.is_save, next.step);
      await_here(coordinator_, subject.broadcast(word));
      hear(word);
    } catch (...) {
      conversation.fail(std::current_exception());
      throw;
    }
  }
  conversation.leave_later();
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
    const std::lock_guard lock(mutex_);
    save_time = save_time_;
  }
  SaveMoment ahead = moment;
  ahead.is_preempted = false;
  for (std::uint64_t step = first; step - first < kHorizon; ++step) {
    const std::uint64_t steps = step - moment.step;
    if (steps > 0 && !step_time_) {
      return {false, step};
    }
    const auto time = step_time_.value_or(std::chrono::nanoseconds(0)) * static_cast<std::int64_t>(steps);
    ahead.step = step;
    ahead.now = moment.now + time;
    if (moment.since_last_save) {
      ahead.since_last_save = *moment.since_last_save + time;
    }
    if (moment.is_saving && steps > 0) {
      if (!save_time) {  // Nobody knows how long it will take: later and later looks.
        return {false, moment.step + (std::uint64_t{1} << std::min<std::uint64_t>(looks_, 20))};
      }
      ahead.is_saving = ahead.since_last_save.value_or(time) < *save_time;
    }
    if (policy_(ahead)) {
      return {true, step};
    }
  }
  return {false, first + kHorizon};
}

std::string RankDecisions::begin_save(const SaveMoment& here) {
  std::string word;
  if (policy_.asks_time() && coordinator_.rank() == 0) {
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
    const Named next = find_next(begun, here.step + 1);
    word = encode(next.is_save, next.step);
  }
  const std::lock_guard lock(mutex_);
  is_word_awaited_ = policy_.asks_time();
  next_.reset();
  return word;
}

void RankDecisions::hear(std::string_view word) {
  const std::lock_guard lock(mutex_);
  if (!word.empty()) {
    next_ = Named{word.front() == kSave, number_in(word.substr(1))};
  }
  is_word_awaited_ = false;
  heard_.notify_all();
}

void RankDecisions::end_save(std::chrono::nanoseconds duration) {
  const std::lock_guard lock(mutex_);
  save_time_ = duration;
  is_word_awaited_ = false;  // Where it has failed before the ranks agreed, they look again.
  heard_.notify_all();
}

}  // namespace cairn::training
