// SPDX-License-Identifier: Apache-2.0
#include "cairn/async/byte_budget.hpp"

#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "cairn/async/suspend.hpp"
#include "cairn/base/error.hpp"

namespace cairn::async {

struct ByteBudget::State : std::enable_shared_from_this<State> {
  enum class Grant { waiting, granted, refused };

  struct Waiter {
    Waiter(std::size_t wanted, Resume handle) : bytes(wanted), resume(std::move(handle)) {}

    std::size_t bytes;
    Resume resume;
    Grant grant = Grant::waiting;
    ByteLease lease;
  };

  using Waiters = std::list<std::shared_ptr<Waiter>>;

  explicit State(std::size_t capacity) : capacity_bytes(capacity) {}

  bool fits(std::size_t bytes) const {
    return capacity_bytes == 0 || leased_bytes == 0 ||
           (bytes <= capacity_bytes && leased_bytes <= capacity_bytes - bytes);
  }

  /// From here on the lease goes back with its waiter, also when the coroutine never runs on.
  void grant(Waiter& waiter) {
    waiter.grant = Grant::granted;
    waiter.lease = ByteLease(shared_from_this(), waiter.bytes);
    leased_bytes += waiter.bytes;
  }

  /// Takes a waiter out of the queue; returns false when it is in it no longer.
  bool leave(const std::shared_ptr<Waiter>& waiter) {
    Waiters granted;
    {
      const std::lock_guard lock(mutex);
      if (waiter->grant != Grant::waiting) {
        return false;
      }
      std::erase(waiters, waiter);
      waiter->grant = Grant::refused;
      granted = grant_waiters();  // The one in front may have been the one that did not fit.
    }
    for (const auto& each : granted) {
      each->resume();
    }
    return true;
  }

  /// Grants what fits, in order; returns who is to be resumed once the lock is given up. Takes no memory: a lease
  /// that goes away must not fail.
  Waiters grant_waiters() noexcept {
    Waiters granted;
    while (!waiters.empty() && fits(waiters.front()->bytes)) {
      grant(*waiters.front());
      granted.splice(granted.end(), waiters, waiters.begin());
    }
    return granted;
  }

  void give_back(std::size_t bytes) {
    Waiters granted;
    {
      const std::lock_guard lock(mutex);
      leased_bytes -= bytes;
      granted = grant_waiters();
    }
    for (const auto& each : granted) {
      each->resume();
    }
  }

  const std::size_t capacity_bytes;
  std::mutex mutex;
  bool is_closed = false;
  std::size_t leased_bytes = 0;
  Waiters waiters;
};

ByteBudget::ByteBudget(std::size_t capacity_bytes) : state_(std::make_shared<State>(capacity_bytes)) {}

Awaitable<ByteLease> ByteBudget::acquire(std::size_t bytes) {
  return acquire(state_, bytes);
}

/// A coroutine's place in the queue, given up when the coroutine is destroyed while it waits.
struct ByteBudget::Place {
  explicit Place(std::shared_ptr<State> budget) : state(std::move(budget)) {}

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

Awaitable<ByteLease> ByteBudget::acquire(std::shared_ptr<State> state, std::size_t bytes) {
  Place place(std::move(state));
  Start start = [&place, bytes](const Resume& resume) {
    State& budget = *place.state;
    place.waiter = std::make_shared<State::Waiter>(bytes, resume);
    {
      const std::lock_guard lock(budget.mutex);
      if (budget.is_closed) {
        place.waiter->grant = State::Grant::refused;
      } else if (budget.waiters.empty() && budget.fits(bytes)) {
        budget.grant(*place.waiter);
      } else {
        budget.waiters.push_back(place.waiter);
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
  if (place.waiter->grant == State::Grant::refused) {
    throw Error(Errc::closed, "the byte budget was closed");
  }
  co_return std::move(place.waiter->lease);
}

ByteLease ByteBudget::try_acquire(std::size_t bytes) {
  const std::lock_guard lock(state_->mutex);
  if (state_->is_closed || !state_->waiters.empty() || !state_->fits(bytes)) {
    return {};
  }
  state_->leased_bytes += bytes;
  return {state_, bytes};
}

void ByteBudget::close() {
  State::Waiters refused;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_closed = true;
    refused.swap(state_->waiters);
    for (const auto& waiter : refused) {
      waiter->grant = State::Grant::refused;
    }
  }
  for (const auto& waiter : refused) {
    waiter->resume();
  }
}

std::size_t ByteBudget::capacity_bytes() const noexcept {
  return state_->capacity_bytes;
}

std::size_t ByteBudget::leased_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->leased_bytes;
}

std::size_t ByteBudget::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiters.size();
}

ByteLease::ByteLease(std::shared_ptr<ByteBudget::State> state, std::size_t bytes) noexcept
    : state_(std::move(state)), bytes_(bytes) {}

ByteLease::ByteLease(ByteLease&& other) noexcept
    : state_(std::move(other.state_)), bytes_(std::exchange(other.bytes_, 0)) {}

ByteLease& ByteLease::operator=(ByteLease&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void ByteLease::release() noexcept {
  if (const auto state = std::exchange(state_, nullptr)) {
    state->give_back(std::exchange(bytes_, 0));
  }
}

}  // namespace cairn::async
