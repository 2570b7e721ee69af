// SPDX-License-Identifier: Apache-2.0
#include "training/preempted_step.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/clock.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"

namespace cairn::training {
namespace {

using std::chrono::steady_clock;

// What ranks say: a word, a round, a step.
constexpr std::string_view kSignal = "signal";
constexpr std::string_view kPropose = "propose";
constexpr std::string_view kBefore = "before";
constexpr std::string_view kPassed = "passed";
constexpr std::string_view kAgreed = "agreed";

/// A rank that has no Checkpointer yet does not hear what is said: it is said again.
constexpr std::chrono::milliseconds kAgain{100};

/// In a proposal: there is no step ahead of all ranks any more, as one has come to the last that has a number.
constexpr std::uint64_t kNoStep = std::numeric_limits<std::uint64_t>::max();

}  // namespace

std::string PreemptedStep::encode(const Notice& notice) {
  return fmt::format("{} {} {}", notice.word, notice.round, notice.step);
}

PreemptedStep::Notice PreemptedStep::decode(std::string_view text) {
  Notice notice;
  notice.word = text.substr(0, text.find(' '));
  const std::string numbers(text.substr(notice.word.size()));
  char* next = nullptr;
  notice.round = std::strtoull(numbers.c_str(), &next, 10);
  notice.step = std::strtoull(next, nullptr, 10);
  return notice;
}

PreemptedStep::PreemptedStep(const PreemptionGuard* preemption, coord::Coordinator& coordinator,
                             std::uint64_t margin, std::string topic)
    : preemption_(preemption),
      coordinator_(coordinator),
      margin_(std::max<std::uint64_t>(margin, 1)),
      topic_(std::move(topic)),
      listening_(coordinator_.listen(
          topic_, [this](std::size_t from, std::string_view text) { hear(from, text); })) {}

bool PreemptedStep::has_come() const {
  const MutexLock lock(mutex_);
  return come_at_.has_value();
}

bool PreemptedStep::is_at(std::uint64_t step) {
  {
    const MutexLock lock(mutex_);
    asked_ = std::max(asked_.value_or(0), step);
  }
  heed_signal();
  wait_for_agreement();
  const MutexLock lock(mutex_);
  // A rank may hear of a later one before it has come to the one before.
  while (!agreed_.empty() && agreed_.front() <= step) {
    agreed_.pop_front();
    come_at_ = step;
  }
  return come_at_ == step;
}

void PreemptedStep::go_back(std::uint64_t step) {
  const MutexLock lock(mutex_);
  if (asked_) {
    asked_ = std::min(*asked_, step);
  }
}

void PreemptedStep::heed_signal() {
  if (preemption_ == nullptr || !preemption_->is_preempted()) {
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (proposal_) {
      return;
    }
  }
  if (coordinator_.rank() == 0) {
    propose();
  } else {
    coordinator_.notify(topic_,
                        kSignal);  // At each step until one is proposed: rank 0 may not have listened.
  }
}

bool PreemptedStep::is_held() const {
  return proposal_ && !proposal_->is_agreed && !proposal_->is_passed && proposal_->step != kNoStep &&
         asked_ >= proposal_->step;
}

void PreemptedStep::wake_waiter() {
  std::exchange(changed_, async::Event()).set();
}

void PreemptedStep::wait_for_agreement() {
  const auto begin = steady_clock::now();
  const bool is_lent = coord::BorrowedCallerThread(coordinator_).is_wanted();
  MutexLock lock(mutex_);
  while (is_held()) {
    if (steady_clock::now() - begin > coordinator_.lost_after()) {
      throw Error(Errc::peer_failed,
                  fmt::format("step {}, at which all ranks are to save because of a signal: {}",
                              proposal_->step, missing_answers()));
    }
    const std::string again = encode({kPropose, proposal_->round, proposal_->step});
    const async::Event changed = changed_;
    lock.unlock();
    if (coordinator_.rank() == 0) {
      coordinator_.notify(topic_, again);
    }
    const bool has_changed = coord::wait_with_progress(coordinator_, changed, kAgain, system_clock());
    if (!has_changed && is_lent && coordinator_.rank() == 0) {
      give_up_proposal();
    }
    lock.lock();
  }
}

/// A rank that lends its thread may have passed the step, and wait in MPI for this one: it answers only when this one
/// has gone on.
void PreemptedStep::give_up_proposal() {
  Notice notice;
  {
    const MutexLock lock(mutex_);
    if (!is_held()) {
      return;
    }
    // Further ahead each time: some trainings have many steps between two at which they hear.
    const std::uint64_t round = proposal_->round + 1;
    std::uint64_t step = proposal_->step;
    for (std::uint64_t i = 0; i < round; ++i) {
      step = ahead_of(step);
    }
    notice = enter(round, step);
  }
  coordinator_.notify(topic_, encode(notice));
  coordinator_.progress();
}

std::string PreemptedStep::missing_answers() const {
  if (coordinator_.rank() != 0) {
    return "rank 0 does not say whether all will";
  }
  std::string ranks;
  for (std::size_t rank = 0; rank < is_before_.size(); ++rank) {
    if (!is_before_[rank]) {
      ranks += fmt::format("{}{}", ranks.empty() ? "rank " : ", ", rank);
    }
  }
  return ranks + ": no answer whether it was passed";
}

void PreemptedStep::hear(std::size_t from, std::string_view text) {
  const Notice notice = decode(text);
  if (coordinator_.rank() != 0) {
    if (notice.word == kPropose) {
      hear_proposal(notice.round, notice.step);
    } else if (notice.word == kAgreed) {
      hear_agreement(notice.round);
    }
  } else if (notice.word == kSignal) {
    propose();
  } else if (notice.word == kBefore) {
    hear_answer(from, notice.round, std::nullopt);
  } else if (notice.word == kPassed) {
    hear_answer(from, notice.round, notice.step);
  }
}

void PreemptedStep::propose() {
  Notice notice;
  {
    const MutexLock lock(mutex_);
    if (proposal_) {
      return;
    }
    notice = enter(1, asked_ ? ahead_of(*asked_) : 0);
  }
  coordinator_.notify(topic_, encode(notice));
}

void PreemptedStep::propose_again(std::uint64_t step) {
  if (coordinator_.rank() != 0) {
    return;
  }
  Notice notice;
  {
    const MutexLock lock(mutex_);
    if (come_at_ != step || !proposal_->is_agreed || !agreed_.empty()) {
      return;  // Another save, or one was proposed already.
    }
    notice = enter(proposal_->round + 1, ahead_of(*asked_));
  }
  coordinator_.notify(topic_, encode(notice));
}

std::uint64_t PreemptedStep::ahead_of(std::uint64_t step) const {
  return step + std::min(margin_, kNoStep - step);
}

PreemptedStep::Notice PreemptedStep::enter(std::uint64_t round, std::uint64_t step) {
  proposal_ = Proposal{.round = round, .step = step};
  is_before_.assign(coordinator_.size(), false);
  is_before_[0] = true;
  wake_waiter();
  return {kPropose, round, step};
}

void PreemptedStep::hear_answer(std::size_t from, std::uint64_t round, std::optional<std::uint64_t> passed) {
  Notice notice;
  {
    const MutexLock lock(mutex_);
    if (!proposal_ || proposal_->is_agreed || proposal_->round != round || from >= is_before_.size()) {
      return;
    }
    if (passed) {
      notice = enter(round + 1, ahead_of(std::max({*passed, proposal_->step, asked_.value_or(0)})));
    } else {
      is_before_[from] = true;
      if (std::find(is_before_.begin(), is_before_.end(), false) != is_before_.end()) {
        return;
      }
      agree();
      notice = {kAgreed, round, proposal_->step};
    }
  }
  coordinator_.notify(topic_, encode(notice));
}

void PreemptedStep::hear_proposal(std::uint64_t round, std::uint64_t step) {
  Notice answer{kBefore, round};
  {
    const MutexLock lock(mutex_);
    if (!proposal_ || proposal_->round < round) {
      proposal_ = Proposal{.round = round, .step = step, .is_passed = asked_ && *asked_ >= step};
      wake_waiter();
    }
    if (proposal_->round != round || step == kNoStep) {
      return;
    }
    if (proposal_->is_passed) {
      answer = {kPassed, round, *asked_};
    }
  }
  coordinator_.notify(topic_, encode(answer));
}

void PreemptedStep::hear_agreement(std::uint64_t round) {
  const MutexLock lock(mutex_);
  if (proposal_ && proposal_->round == round && !proposal_->is_agreed) {
    agree();
  }
}

void PreemptedStep::agree() {
  proposal_->is_agreed = true;
  agreed_.push_back(proposal_->step);
  wake_waiter();
}

}  // namespace cairn::training
