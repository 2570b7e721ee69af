// SPDX-License-Identifier: Apache-2.0
#include "async/internal/semaphore.hpp"

#include <algorithm>
#include <list>
#include <memory>
#include <utility>

#include "async/internal/suspend.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::async {

struct Semaphore::Waiter {
  enum class Grant { waiting, granted, given_up };

  Waiter(std::size_t wanted, std::shared_ptr<FairShare> whose, Resume handle)
      : count(wanted), share(std::move(whose)), resume(std::move(handle)) {}

  std::size_t count;
  std::shared_ptr<FairShare> share;
  Resume resume;
  Grant grant = Grant::waiting;
  Permit permit;
};

/// The state that all shares of a semaphore have in common.
struct Semaphore::State {
  using Waiters = std::list<std::shared_ptr<Waiter>>;

  explicit State(std::size_t most) : capacity(most) {}

  [[nodiscard]] bool fits(const FairShare& share, std::size_t count) const CAIRN_REQUIRES(mutex);
  /// Returns whether nobody waits that comes first.
  [[nodiscard]] bool is_next(const FairShare& share) const CAIRN_REQUIRES(mutex);
  void grant(Waiter& waiter) CAIRN_REQUIRES(mutex);

  /// Takes a waiter out of the queue; returns false when it is in it no longer.
  bool leave(const std::shared_ptr<Waiter>& waiter);
  void give_back(FairShare& share, std::size_t count);

  /// Grants what fits, in order; returns who is to be resumed once the lock is given up. Takes no memory: a permit
  /// that goes away must not fail.
  Waiters grant_waiters() noexcept CAIRN_REQUIRES(mutex);
  /// As above, for the first that waits in `share`, which holds nothing.
  void grant_first(const FairShare& share, Waiters& granted) noexcept CAIRN_REQUIRES(mutex);

  const std::size_t capacity;
  Mutex mutex;  // Protects what the shares count, too.
  std::size_t taken CAIRN_GUARDED_BY(mutex) = 0;
  Waiters waiters CAIRN_GUARDED_BY(mutex);
};

struct Semaphore::FairShare {
  explicit FairShare(std::shared_ptr<State> of) : state(std::move(of)) {}

  const std::shared_ptr<State> state;
  std::size_t taken = 0;
  std::size_t waiting = 0;
};

bool Semaphore::State::fits(const FairShare& share, std::size_t count) const {
  return capacity == 0 || share.taken == 0 || (count <= capacity && taken <= capacity - count);
}

bool Semaphore::State::is_next(const FairShare& share) const {
  return waiters.empty() || share.taken == 0;
}

/// From here on the permit goes back with its waiter, also when the coroutine never runs on.
void Semaphore::State::grant(Waiter& waiter) {
  waiter.grant = Waiter::Grant::granted;
  waiter.permit = Permit(waiter.share, waiter.count);
  waiter.share->taken += waiter.count;
  taken += waiter.count;
}

bool Semaphore::State::leave(const std::shared_ptr<Waiter>& waiter) {
  Waiters granted;
  {
    const MutexLock lock(mutex);
    if (waiter->grant != Waiter::Grant::waiting) {
      return false;
    }
    std::erase(waiters, waiter);
    --waiter->share->waiting;
    waiter->grant = Waiter::Grant::given_up;
    granted = grant_waiters();  // The one in front may have been the one that did not fit.
  }
  for (const auto& each : granted) {
    each->resume();
  }
  return true;
}

Semaphore::State::Waiters Semaphore::State::grant_waiters() noexcept {
  Waiters granted;
  while (!waiters.empty() && fits(*waiters.front()->share, waiters.front()->count)) {
    --waiters.front()->share->waiting;
    grant(*waiters.front());
    granted.splice(granted.end(), waiters, waiters.begin());
  }
  return granted;
}

void Semaphore::State::grant_first(const FairShare& share, Waiters& granted) noexcept {
  const auto first = std::find_if(waiters.begin(), waiters.end(),
                                  [&share](const auto& waiter) { return waiter->share.get() == &share; });
  --(*first)->share->waiting;
  grant(**first);
  granted.splice(granted.end(), waiters, first);
}

void Semaphore::State::give_back(FairShare& share, std::size_t count) {
  Waiters granted;
  {
    const MutexLock lock(mutex);
    taken -= count;
    share.taken -= count;
    granted = grant_waiters();
    if (share.taken == 0 && share.waiting != 0) {
      grant_first(share, granted);
    }
  }
  for (const auto& each : granted) {
    each->resume();
  }
}

Semaphore::Semaphore(std::size_t capacity)
    : share_(std::make_shared<FairShare>(std::make_shared<State>(capacity))) {}

Semaphore::Semaphore(std::shared_ptr<FairShare> share) noexcept : share_(std::move(share)) {}

Semaphore Semaphore::fair_share() const {
  return Semaphore(std::make_shared<FairShare>(share_->state));
}

Awaitable<Permit> Semaphore::acquire(std::size_t count) {
  return acquire(share_, count);
}

/// A coroutine's place in the queue, given up when the coroutine is destroyed while it waits.
struct Semaphore::QueueEntry {
  explicit QueueEntry(std::shared_ptr<FairShare> whose) : share(std::move(whose)) {}

  ~QueueEntry() {
    if (waiter) {
      share->state->leave(waiter);
    }
  }

  QueueEntry(const QueueEntry&) = delete;
  QueueEntry& operator=(const QueueEntry&) = delete;

  const std::shared_ptr<FairShare> share;
  std::shared_ptr<Waiter> waiter;
};

Awaitable<Permit> Semaphore::acquire(std::shared_ptr<FairShare> share, std::size_t count) {
  QueueEntry entry(std::move(share));
  Start start = [&entry, count](const Resume& resume) {
    State& semaphore = *entry.share->state;
    entry.waiter = std::make_shared<Waiter>(count, entry.share, resume);
    {
      const MutexLock lock(semaphore.mutex);
      if (semaphore.is_next(*entry.share) && semaphore.fits(*entry.share, count)) {
        semaphore.grant(*entry.waiter);
      } else {
        semaphore.waiters.push_back(entry.waiter);
        ++entry.share->waiting;
        return;
      }
    }
    resume();
  };
  OnCancel leave = [&entry](const Resume& resume) {
    if (entry.share->state->leave(entry.waiter)) {
      resume(cancelled());  // Else the other resumption is on its way.
    }
  };
  co_await suspend(std::move(start), std::move(leave));
  co_return std::move(entry.waiter->permit);
}

Permit Semaphore::try_acquire(std::size_t count) {
  State& state = *share_->state;
  const MutexLock lock(state.mutex);
  if (!state.is_next(*share_) || !state.fits(*share_, count)) {
    return {};
  }
  state.taken += count;
  share_->taken += count;
  return {share_, count};
}

std::size_t Semaphore::capacity() const noexcept {
  return share_->state->capacity;
}

std::size_t Semaphore::taken() const {
  const MutexLock lock(share_->state->mutex);
  return share_->state->taken;
}

std::size_t Semaphore::waiting() const {
  const MutexLock lock(share_->state->mutex);
  return share_->state->waiters.size();
}

Permit::Permit(std::shared_ptr<Semaphore::FairShare> share, std::size_t count) noexcept
    : share_(std::move(share)), count_(count) {}

Permit::Permit(Permit&& other) noexcept
    : share_(std::move(other.share_)), count_(std::exchange(other.count_, 0)) {}

Permit& Permit::operator=(Permit&& other) noexcept {
  if (this != &other) {
    release();
    share_ = std::move(other.share_);
    count_ = std::exchange(other.count_, 0);
  }
  return *this;
}

void Permit::release() noexcept {
  if (const auto share = std::exchange(share_, nullptr)) {
    share->state->give_back(*share, std::exchange(count_, 0));
  }
}

}  // namespace cairn::async
