// SPDX-License-Identifier: Apache-2.0
#include "training/rank_schedule.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/some_ranks.hpp"

#include "base/internal/packed.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"
#include "training/rank_talk.hpp"

namespace cairn::training {
namespace {

/// Rank 0 asks a policy about so many steps at once at most, which takes a millisecond.
constexpr std::uint64_t kMostAhead = 10'000;
/// Steps that were named are kept for ranks that have missed a notice. Of a training that never saves, so many.
constexpr std::size_t kMostNamed = 10'000;
/// A notice may be lost, or rank 0 may not have come so far: who waits asks again.
constexpr std::chrono::milliseconds kAskAgain{100};
/// All ranks hear that rank 0 has nothing new: so often is enough, however many ask.
constexpr std::chrono::milliseconds kAnswerAgain{50};
constexpr std::uint64_t kLastStep = std::numeric_limits<std::uint64_t>::max();

/// Draws what names a Checkpointer; never 0.
std::uint64_t draw_line(const store::RandomSource& random) {
  std::uint64_t line = 0;
  random(std::as_writable_bytes(std::span(&line, 1)));
  return line | 1U;
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

std::string RankSchedule::encode(const Notice& notice) {
  std::string text;
  put(text, notice.line);
  put(text, notice.from);
  put(text, notice.up_to);
  put(text, std::uint8_t{notice.is_signalled});
  for (const Named& each : notice.named) {
    put(text, each.step);
    put(text, std::uint8_t{each.is_due});
    put(text, std::uint8_t{each.is_preempted});
    put_text(text, each.failure ? describe(each.failure) : "");
  }
  return text;
}

RankSchedule::Notice RankSchedule::decode(std::string_view text) {
  Notice notice;
  notice.line = take<std::uint64_t>(text);
  notice.from = take<Step>(text);
  notice.up_to = take<Step>(text);
  notice.is_signalled = take<std::uint8_t>(text) != 0;
  while (!text.empty()) {
    Named& named = notice.named.emplace_back();
    named.step = take<Step>(text);
    named.is_due = take<std::uint8_t>(text) != 0;
    named.is_preempted = take<std::uint8_t>(text) != 0;
    if (const std::string_view words = take_text(text); !words.empty()) {
      named.failure = std::make_exception_ptr(Error(Errc::peer_failed, fmt::format("rank 0: {}", words)));
    }
  }
  return notice;
}

/// Adds what is new of another lease of the same line. Returns false where one between the two is missing.
bool RankSchedule::append(Notice& known, const Notice& more) {
  if (more.from > known.up_to) {
    return false;
  }
  std::copy_if(more.named.begin(), more.named.end(), std::back_inserter(known.named),
               [&known](const Named& each) { return known.up_to < each.step; });
  known.up_to = std::max(known.up_to, more.up_to);
  return true;
}

RankSchedule::RankSchedule(const SavePolicy& policy, const PreemptionGuard* preemption,
                           coord::Coordinator& coordinator, const Clock& clock, std::uint64_t margin,
                           const std::filesystem::path& root, const store::RandomSource& random)
    : policy_(policy),
      preemption_(preemption),
      coordinator_(coordinator),
      clock_(clock),
      margin_(std::clamp<std::uint64_t>(margin, 1, kMostAhead)),
      line_(draw_line(random)),
      topic_("cairn.training " + root.string()),
      listening_(coordinator_.listen(
          topic_, [this](std::size_t from, std::string_view text) { hear(from, text); })) {}

bool RankSchedule::decide(const SaveMoment& here, bool is_forced, const CallTime& time) {
  // Hears what has come, and says that this rank may be silent: the policy may think.
  const bool is_lent = coord::BorrowedCallerThread(coordinator_).is_wanted();
  const Named named =
      coordinator_.rank() == 0 ? lead(here, is_forced, is_lent, time) : follow(here.step, is_lent, time);
  coord::rest(coordinator_);  // Sends what was said.
  if (is_forced) {
    return true;
  }
  if (named.failure) {
    std::rethrow_exception(named.failure);
  }
  return policy_.asks_time() ? named.is_due : policy_(alike(here, named.is_preempted));
}

/// Begins a line: all ranks have its first lease when rank 0 goes on, and hear those that follow.
/// Where it fails, the line has not begun: the next decision meets again.
void RankSchedule::meet(const CallTime& time) {
  const bool is_first = coordinator_.rank() == 0;
  try {
    RankTalk talk(coordinator_, {"decides whether to save", time.what()}, time);
    coord::Channel channel = talk.channel(topic_);
    std::string text;
    if (is_first) {
      const MutexLock lock(mutex_);
      leased_.line = talk.number() + 1;
      text = encode(leased_);
    }
    text = talk.await(channel.broadcast(std::move(text)));
    if (!is_first) {
      const MutexLock lock(mutex_);
      leased_ = decode(text);
    }
    const auto nothing = [](const std::vector<std::string>&) { return std::string(); };
    talk.await(channel.reduce("", nothing));
    // A rank that went on before all are there would join a session more than one that gives up here.
    talk.await(channel.broadcast(""));
    talk.end();
  } catch (...) {
    const MutexLock lock(mutex_);
    begin_line();
    throw;
  }
}

/// Nothing is decided of what comes.
void RankSchedule::begin_line() {
  leased_ = Notice();
  come_ = 0;
  here_.reset();
  asked_ = 0;
}

/// Returns what was named of the steps up to this one since the one before. Asked again, it is the same.
RankSchedule::Named RankSchedule::come_to(Step step) {
  if (here_ && here_->step == step) {
    return *here_;
  }
  Named here{.step = step};
  for (; come_ < leased_.named.size() && leased_.named[come_].step <= step; ++come_) {
    const Named& each = leased_.named[come_];
    here.is_due |= each.is_due;
    here.is_preempted |= each.is_preempted;
    here.failure = here.failure ? here.failure : each.failure;
  }
  for (; come_ > kMostNamed; --come_) {
    leased_.named.pop_front();
  }
  if (here.is_preempted) {
    come_at_ = step;
    wants_preempted_ = here.failure != nullptr;
  }
  asked_ = std::max(asked_, step);
  here_ = here;
  return here;
}

bool RankSchedule::is_preempted() const {
  const MutexLock lock(mutex_);
  return come_at_.has_value();
}

/// Returns whether there is a step that is still to come.
bool RankSchedule::names_preempted() const {
  return std::any_of(leased_.named.begin() + static_cast<std::ptrdiff_t>(come_), leased_.named.end(),
                     [](const Named& each) { return each.is_preempted; });
}

void RankSchedule::end_save(std::uint64_t step, std::optional<std::chrono::nanoseconds> duration) noexcept {
  const MutexLock lock(mutex_);
  if (!duration) {
    wants_preempted_ = wants_preempted_ || come_at_ == step;
    return;
  }
  save_time_ = duration;
  // All ranks have come to this step: nobody asks what was named before.
  for (; come_ > 0 && leased_.named.front().step <= step; --come_) {
    leased_.named.pop_front();
  }
}

void RankSchedule::go_back() {
  mark_.reset();
  const MutexLock lock(mutex_);
  begin_line();
  silent_.clear();
  furthest_ = 0;
}

/// On the transport's thread.
void RankSchedule::hear(std::size_t from, std::string_view text) {
  Notice notice = decode(text);
  std::string said;
  {
    const MutexLock lock(mutex_);
    said = coordinator_.rank() == 0 ? hear_report(from, notice) : hear_lease(std::move(notice));
  }
  if (!said.empty()) {
    coordinator_.notify(topic_, said);
  }
}

// Rank 0.

RankSchedule::Named RankSchedule::lead(const SaveMoment& here, bool is_forced, bool is_lent,
                                       const CallTime& time) {
  const bool asks = policy_.asks_time();
  measure(here.step);
  if (is_signalled()) {
    const MutexLock lock(mutex_);
    wants_preempted_ = wants_preempted_ || !come_at_;
  }
  Notice more = asks ? look_ahead(here, is_forced) : Notice();
  MutexLock lock(mutex_);
  const bool is_first = leased_.line == 0;
  if (asks && is_first) {
    leased_ = more;
  } else if (asks) {
    append(leased_, more);
  } else if (!is_first || wants_preempted_) {
    if (!is_lent) {  // Else silence does not count.
      require_reports();
    }
    more = extend(here.step);
  }
  Named named = come_to(here.step);
  lock.unlock();
  if (asks && is_first) {
    meet(time);
  } else if (more.from < more.up_to) {
    coordinator_.notify(topic_, encode(more));
  }
  return named;
}

void RankSchedule::measure(Step step) {
  const TimePoint now = policy_.asks_time() ? clock_.steady_now() : TimePoint();
  const MutexLock lock(mutex_);
  if (mark_ && step > mark_->first) {
    stride_ = step - mark_->first;
    const auto time = std::chrono::nanoseconds(now - mark_->second) /
                      static_cast<std::int64_t>(std::min<Step>(stride_, INT64_MAX));
    step_time_ = std::min(last_step_time_.value_or(time), time);  // One step that takes long is no trend.
    last_step_time_ = time;
  }
  if (!mark_ || step != mark_->first) {
    mark_ = {step, now};
  }
}

/// Asks the policy about the steps that are not leased yet: without the lock, as it may be the program's.
RankSchedule::Notice RankSchedule::look_ahead(const SaveMoment& here, bool is_forced) {
  MutexLock lock(mutex_);
  Notice more{.line = leased_.line, .from = leased_.up_to, .up_to = leased_.up_to};
  const bool asks_here = leased_.line == 0 || leased_.up_to < here.step;
  const Step stride = stride_;
  bool is_preempted = wants_preempted_ && !names_preempted();
  std::optional<Step> due =
      is_forced ? std::optional(here.step) : std::nullopt;  // The last one that is known.
  for (std::size_t i = come_; i < leased_.named.size(); ++i) {
    due = leased_.named[i].is_due ? std::max(leased_.named[i].step, here.step) : due;
  }
  lock.unlock();
  const auto ask = [&](SaveMoment moment) {
    moment.is_preempted = std::exchange(is_preempted, false);
    Named named{.step = moment.step, .is_preempted = moment.is_preempted};
    try {
      named.is_due = policy_(moment);
    } catch (...) {  // It counts when that step has come.
      named.failure = std::current_exception();
    }
    more.up_to = moment.step;
    due = named.is_due ? moment.step : due;
    if (named.is_due || named.is_preempted || named.failure) {
      more.named.push_back(std::move(named));
    }
  };
  if (asks_here) {
    ask(here);
  }
  Step step = here.step;
  std::vector<Step> steps;  // Holds what the moment shows.
  for (std::uint64_t i = 0; step_time_ && i < margin_ && stride <= kLastStep - step; ++i) {
    step += stride;
    if (more.up_to < step) {
      ask(predict(here, step, due, steps));
    }
  }
  return more;
}

/// Returns the moment at which a later step will come, after the save of step `due` if there is to be one.
SaveMoment RankSchedule::predict(const SaveMoment& here, Step step, std::optional<Step> due,
                                 std::vector<Step>& steps) const {
  const auto time_from = [&](Step earlier) {
    return *step_time_ * static_cast<std::int64_t>(std::min<Step>(step - earlier, INT64_MAX));
  };
  SaveMoment ahead = here;
  ahead.step = step;
  ahead.now += time_from(here.step);
  if (due) {
    ahead.is_saving = true;
    ahead.since_last_save = time_from(*due);
    steps.assign(here.steps.begin(), here.steps.end());
    if (steps.empty() || steps.back() < *due) {
      steps.push_back(*due);
    }
    ahead.steps = steps;
  } else if (ahead.since_last_save) {
    *ahead.since_last_save += time_from(here.step);
  }
  const MutexLock lock(mutex_);
  ahead.is_saving = ahead.is_saving && !(save_time_ && ahead.since_last_save >= *save_time_);
  return ahead;
}

/// Leases steps that a policy without time is asked about. Names the step to save because of a signal as soon as no
/// rank goes on without a lease.
RankSchedule::Notice RankSchedule::extend(Step step) {
  if (leased_.line == 0) {
    leased_.line = line_;
    heard_ = clock_.steady_now();
    for (std::size_t rank = 1; rank < coordinator_.size(); ++rank) {
      silent_.insert(rank);
    }
  }
  Notice more{.line = leased_.line, .from = leased_.up_to};
  more.up_to = stride_ > (kLastStep - step) / margin_ ? kLastStep : step + margin_ * stride_;
  const Step last = std::max(leased_.up_to, furthest_);
  if (wants_preempted_ && silent_.empty() && !names_preempted() && last != kLastStep) {
    more.named.push_back({.step = last + 1, .is_preempted = true});
    more.up_to = std::max(more.up_to, last + 1);
  }
  append(leased_, more);
  return more;
}

/// Errors: Errc::peer_failed.
void RankSchedule::require_reports() const {
  if (!silent_.empty() && clock_.steady_now() - heard_ > coordinator_.lost_after()) {
    if (const std::exception_ptr loss = coordinator_.loss()) {
      std::rethrow_exception(loss);
    }
    SomeRanks silent;
    std::for_each(silent_.begin(), silent_.end(), [&silent](std::size_t rank) { silent.add(rank); });
    throw Error(Errc::peer_failed, fmt::format("all ranks are to save because of a signal, and {}: no answer "
                                               "which step was reached",
                                               to_string(silent)));
  }
}

/// Returns what to tell all, if anything.
std::string RankSchedule::hear_report(std::size_t from, const Notice& report) {
  if (report.is_signalled) {
    wants_preempted_ = wants_preempted_ || !come_at_;
    if (wants_preempted_ && leased_.line == 0 && here_ && !policy_.asks_time()) {
      return encode(extend(asked_));
    }
  }
  if (report.line != leased_.line) {  // It is about an earlier line: there is another lease, or none.
    if (report.line == 0 || report.up_to == kLastStep) {
      return {};
    }
    if (policy_.asks_time()) {
      return encode({.line = report.line, .from = kLastStep});
    }
    return encode(leased_.line != 0 ? leased_ : Notice{.line = report.line, .up_to = kLastStep});
  }
  const TimePoint now = clock_.steady_now();
  if (silent_.erase(from) > 0) {
    heard_ = now;
    furthest_ = std::max(furthest_, report.from);
  }
  if (report.line == 0 || (report.up_to >= leased_.up_to && now - answered_ < kAnswerAgain)) {
    return {};
  }
  answered_ = now;
  return encode(leased_);
}

// The others.

/// `silence`: of rank 0, which is asked here whether it is there.
void RankSchedule::require_answer(Step step, std::chrono::nanoseconds silence, bool is_lent,
                                  const CallTime& time) const {
  const bool answers = coordinator_.ask(0);
  if (const std::exception_ptr loss = coordinator_.loss()) {
    std::rethrow_exception(loss);
  }
  if (time.is_over()) {
    SomeRanks missing;
    missing.add(std::size_t{0});
    time.give_up(missing);
  }
  const bool is_late = time.join_timeout() > time.join_timeout().zero() && silence > time.join_timeout();
  if (is_late || (!is_lent && answers && silence > coordinator_.lost_after())) {
    throw Error(Errc::peer_failed, fmt::format("rank 0 does not say whether to save step {}", step));
  }
}

RankSchedule::Named RankSchedule::follow(Step step, bool is_lent, const CallTime& time) {
  MutexLock lock(mutex_);
  if (policy_.asks_time() && leased_.line == 0) {
    lock.unlock();
    meet(time);
    lock.lock();
  }
  if (is_signalled() && !come_at_ && !names_preempted()) {
    const std::string signal = report();  // At each step: rank 0 may not have listened.
    lock.unlock();
    coordinator_.notify(topic_, signal);
    lock.lock();
  }
  const TimePoint begin = leased_.line != 0 ? clock_.steady_now() : TimePoint();
  for (bool asks = false; leased_.line != 0 && leased_.up_to < step;) {
    const std::chrono::nanoseconds silence = clock_.steady_now() - std::max(begin, heard_);
    const std::string question = asks ? report() : "";
    const async::Event changed = changed_;
    lock.unlock();
    if (asks) {
      require_answer(step, silence, is_lent, time);
      coordinator_.notify(topic_, question);
    }
    asks = !coord::wait_with_progress(coordinator_, changed, kAskAgain, clock_);
    lock.lock();
    if (policy_.asks_time() && leased_.line == 0) {  // Rank 0 has begun another one.
      lock.unlock();
      meet(time);
      lock.lock();
    }
  }
  return come_to(step);
}

std::string RankSchedule::report() const {
  return encode(
      {.line = leased_.line, .from = asked_, .up_to = leased_.up_to, .is_signalled = is_signalled()});
}

/// Returns what to tell rank 0: how far this rank has come, with its first lease or where it misses one.
std::string RankSchedule::hear_lease(Notice lease) {
  heard_ = clock_.steady_now();
  std::exchange(changed_, async::Event()).set();
  if (lease.line == leased_.line && lease.from > lease.up_to) {
    begin_line();  // Rank 0 knows nothing of it.
    return {};
  }
  if (lease.line == leased_.line) {
    return append(leased_, lease) ? "" : report();
  }
  if (policy_.asks_time()) {
    return {};  // It belongs to an earlier line.
  }
  leased_ = std::move(lease);
  leased_.named.clear();  // Rank 0 names nothing of this training before it has heard of this rank.
  come_ = 0;
  return report();
}

}  // namespace cairn::training
