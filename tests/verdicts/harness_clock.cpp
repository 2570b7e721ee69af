// SPDX-License-Identifier: Apache-2.0
#include "verdicts/harness_clock.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace cairn::verdicts {
namespace {

/// What the day is when a manual clock starts.
constexpr std::chrono::system_clock::time_point kFirstDay{std::chrono::hours(24) * 365 * 56};

double seconds(Moment when) {
  return std::chrono::duration<double>(when.time_since_epoch()).count();
}

}  // namespace

std::chrono::system_clock::time_point HarnessClock::now() const {
  return is_manual_ ? kFirstDay + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                      steady_now().time_since_epoch())
                    : std::chrono::system_clock::now();
}

Moment HarnessClock::steady_now() const {
  if (!is_manual_) {
    return std::chrono::steady_clock::now();
  }
  const std::lock_guard lock(mutex_);
  ++looks_;
  return now_;
}

std::uint64_t HarnessClock::looks() const {
  const std::lock_guard lock(mutex_);
  return looks_;
}

bool HarnessClock::wait_until(MutexLock& lock, Condition& condition, Moment when,
                              const std::function<bool()>& ready) const {
  return sleep(lock, condition, when, ready, nullptr);
}

bool HarnessClock::sleep(MutexLock& lock, Condition& condition, Moment when,
                         const std::function<bool()>& ready, const std::string* what) const {
  if (!is_manual_ && when != Moment::max()) {
    return condition.wait_until(lock, when, ready);
  }
  const auto place = [&] {
    const std::lock_guard own(mutex_);
    return sleepers_.insert(sleepers_.end(), {lock.mutex(), &condition, when, what});
  }();
  bool is_ready = ready();
  while (!is_ready && steady_now() < when) {
    condition.wait(lock);
    is_ready = ready();
  }
  const std::lock_guard own(mutex_);
  sleepers_.erase(place);
  return is_ready;
}

void HarnessClock::sleep_for(Duration duration, const std::string& what) const {
  Mutex mutex;
  Condition condition;
  MutexLock lock(mutex);
  sleep(
      lock, condition, steady_now() + duration, [] { return false; }, &what);
}

std::uint64_t HarnessClock::at(Moment when, std::function<void()> alarm) {
  const std::lock_guard lock(mutex_);
  alarms_.emplace(std::pair(when, ++last_alarm_), std::move(alarm));
  return last_alarm_;
}

void HarnessClock::forget(std::uint64_t alarm) {
  std::unique_lock lock(mutex_);
  std::erase_if(alarms_, [alarm](const auto& entry) { return entry.first.second == alarm; });
  rung_.wait(lock, [&] { return ringing_ != alarm; });
}

std::optional<Moment> HarnessClock::next_event() const {
  const std::lock_guard lock(mutex_);
  Moment next = alarms_.empty() ? Moment::max() : alarms_.begin()->first.first;
  for (const Sleeper& sleeper : sleepers_) {
    next = std::min(next, sleeper.when);
  }
  return next == Moment::max() ? std::nullopt : std::optional(next);
}

void HarnessClock::advance_to(Moment when, std::uint64_t looks) {
  {
    const std::lock_guard lock(mutex_);
    if (looks_ != looks) {
      return;
    }
    now_ = std::max(now_, when);
  }
  wake_sleepers();
  ring_alarms();
}

void HarnessClock::wake_sleepers() {
  for (bool is_complete = false; !is_complete;) {
    is_complete = true;
    {
      const std::lock_guard lock(mutex_);
      for (Sleeper& sleeper : sleepers_) {
        if (sleeper.is_told || sleeper.when > now_) {
          continue;
        }
        // With its mutex: between its look at the clock and its sleep a notification would be lost.
        if (sleeper.mutex->try_lock()) {
          sleeper.condition->notify_all();
          sleeper.is_told = true;
          sleeper.mutex->unlock();
        } else {
          is_complete = false;
        }
      }
    }
    if (!is_complete) {
      std::this_thread::yield();
    }
  }
}

void HarnessClock::ring_alarms() {
  const Moment now = steady_now();
  std::unique_lock lock(mutex_);
  while (!alarms_.empty() && alarms_.begin()->first.first <= now) {
    const auto alarm = std::move(alarms_.begin()->second);
    ringing_ = alarms_.begin()->first.second;
    alarms_.erase(alarms_.begin());
    lock.unlock();
    alarm();
    lock.lock();
    ringing_ = 0;
    rung_.notify_all();
  }
}

std::string HarnessClock::describe() const {
  const std::lock_guard lock(mutex_);
  std::string text = fmt::format("  the clock says {:.3f} s\n", seconds(now_));
  for (const Sleeper& sleeper : sleepers_) {
    text +=
        fmt::format("  until {}: {}\n",
                    sleeper.when == Moment::max() ? "told" : fmt::format("{:.3f} s", seconds(sleeper.when)),
                    sleeper.what != nullptr ? *sleeper.what : "something of the library");
  }
  for (const auto& [when, alarm] : alarms_) {
    text += fmt::format("  at {:.3f} s: alarm {}\n", seconds(when.first), when.second);
  }
  return text;
}

}  // namespace cairn::verdicts
