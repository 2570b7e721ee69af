// SPDX-License-Identifier: Apache-2.0
#include "async/internal/semaphore.hpp"

#include <list>
#include <memory>
#include <utility>

#include "async/internal/suspend.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::async {

struct Semaphore::State : std::enable_shared_from_this<State> {
  enum class Grant { waiting, granted, given_up };

  struct Waiter {
    Waiter(std::size_t wanted, Resume handle) : count(wanted), resume(std::move(handle)) {}

    std::size_t count;
    Resume resume;
    Grant grant = Grant::waiting;
    Permit permit;
  };

  using Waiters = std::list<std::shared_ptr<Waiter>>;

  explicit State(std::size_t most) : capacity(most) {}

  bool fits(std::size_t count) const CAIRN_REQUIRES(mutex) {
    return capacity == 0 || taken == 0 || (count <= capacity && taken <= capacity - count);
  }

  /// From here on the permit goes back with its waiter, also when the coroutine never runs on.
  void grant(Waiter& waiter) CAIRN_REQUIRES(mutex) {
    waiter.grant = Grant::granted;
    waiter.permit = Permit(shared_from_this(), waiter.count);
    taken += waiter.count;
  }

  /// Takes a waiter out of the queue; returns false when it is in it no longer.
  bool leave(const std::shared_ptr<Waiter>& waiter) {
    Waiters granted;
    {
      const MutexLock lock(mutex);
      if (waiter->grant != Grant::waiting) {
        return false;
      }
      std::erase(waiters, waiter);
      waiter->grant = Grant::given_up;
      granted = grant_waiters();  // The one in front may have been the one that did not fit.
    }
    for (const auto& each : granted) {
      each->resume();
    }
    return true;
  }

  /// Grants what fits, in order; returns who is to be resumed once the lock is given up. Takes no memory: a permit
  /// that goes away must not fail.
  Waiters grant_waiters() noexcept CAIRN_REQUIRES(mutex) {
    Waiters granted;
    while (!waiters.empty() && fits(waiters.front()->count)) {
      grant(*waiters.front());
      granted.splice(granted.end(), waiters, waiters.begin());
    }
    return granted;
  }

  void give_back(std::size_t count) {
    Waiters granted;
    {
      const MutexLock lock(mutex);
      taken -= count;
      granted = grant_waiters();
    }
    for (const auto& each : granted) {
      each->resume();
    }
  }

  const std::size_t capacity;
  Mutex mutex;
  std::size_t taken CAIRN_GUARDED_BY(mutex) = 0;
  Waiters waiters CAIRN_GUARDED_BY(mutex);
};

Semaphore::Semaphore(std::size_t capacity) : state_(std::make_shared<State>(capacity)) {}

Awaitable<Permit> Semaphore::acquire(std::size_t count) {
  return acquire(state_, count);
}

/// A coroutine's place in the queue, given up when the coroutine is destroyed while it waits.
struct Semaphore::Place {
  explicit Place(std::shared_ptr<State> semaphore) : state(std::move(semaphore)) {}

  ~Place() {
    if (waiter) {
      state->leave(waiter);
    }
  }

  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  const std::shared_ptr<State> state;
  std::shared_ptr<State::Waiter> waiter;
};

Awaitable<Permit> Semaphore::acquire(std::shared_ptr<State> state, std::size_t count) {
  Place place(std::move(state));
  Start start = [&place, count](const Resume& resume) {
    State& semaphore = *place.state;
    place.waiter = std::make_shared<State::Waiter>(count, resume);
    {
      const MutexLock lock(semaphore.mutex);
      if (semaphore.waiters.empty() && semaphore.fits(count)) {
        semaphore.grant(*place.waiter);
      } else {
        semaphore.waiters.push_back(place.waiter);
        return;
      }
    }
    resume();
  };
  OnCancel leave = [&place](const Resume& resume) {
    if (place.state->leave(place.waiter)) {
      resume(cancelled());  // Else the other resumption is on its way.
    }
  };
  co_await suspend(std::move(start), std::move(leave));
  co_return std::move(place.waiter->permit);
}

Permit Semaphore::try_acquire(std::size_t count) {
  const MutexLock lock(state_->mutex);
  if (!state_->waiters.empty() || !state_->fits(count)) {
    return {};
  }
  state_->taken += count;
  return {state_, count};
}

std::size_t Semaphore::capacity() const noexcept {
  return state_->capacity;
}

std::size_t Semaphore::taken() const {
  const MutexLock lock(state_->mutex);
  return state_->taken;
}

std::size_t Semaphore::waiting() const {
  const MutexLock lock(state_->mutex);
  return state_->waiters.size();
}

Permit::Permit(std::shared_ptr<Semaphore::State> state, std::size_t count) noexcept
    : state_(std::move(state)), count_(count) {}

Permit::Permit(Permit&& other) noexcept
    : state_(std::move(other.state_)), count_(std::exchange(other.count_, 0)) {}

Permit& Permit::operator=(Permit&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
    count_ = std::exchange(other.count_, 0);
  }
  return *this;
}

void Permit::release() noexcept {
  if (const auto state = std::exchange(state_, nullptr)) {
    state->give_back(std::exchange(count_, 0));
  }
}

}  // namespace cairn::async
