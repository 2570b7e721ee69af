// SPDX-License-Identifier: Apache-2.0
#include "cairn/async/byte_budget.hpp"

#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "cairn/async/suspend.hpp"
#include "cairn/base/error.hpp"

namespace cairn::async {
namespace {

enum class Grant { waiting, granted, refused };

struct Waiter {
  Waiter(std::size_t wanted, Resume handle) : bytes(wanted), resume(std::move(handle)) {}

  std::size_t bytes;
  Resume resume;
  Grant grant = Grant::waiting;
};

}  // namespace

struct ByteBudget::State {
  explicit State(std::size_t capacity) : capacity_bytes(capacity) {}

  bool fits(std::size_t bytes) const {
    return capacity_bytes == 0 || leased_bytes == 0 ||
           (bytes <= capacity_bytes && leased_bytes <= capacity_bytes - bytes);
  }

  /// Grants what fits, in order; returns who is to be resumed once the lock is given up.
  std::vector<Resume> grant_waiters() {
    std::vector<Resume> granted;
    while (!waiters.empty() && fits(waiters.front()->bytes)) {
      waiters.front()->grant = Grant::granted;
      leased_bytes += waiters.front()->bytes;
      granted.push_back(waiters.front()->resume);
      waiters.pop_front();
    }
    return granted;
  }

  void give_back(std::size_t bytes) {
    std::vector<Resume> granted;
    {
      const std::lock_guard lock(mutex);
      leased_bytes -= bytes;
      granted = grant_waiters();
    }
    for (const Resume& resume : granted) {
      resume();
    }
  }

  const std::size_t capacity_bytes;
  std::mutex mutex;
  bool is_closed = false;
  std::size_t leased_bytes = 0;
  std::deque<std::shared_ptr<Waiter>> waiters;
};

ByteBudget::ByteBudget(std::size_t capacity_bytes)
    : state_(std::make_shared<State>(capacity_bytes)) {}

Awaitable<ByteLease> ByteBudget::acquire(std::size_t bytes) { return acquire(state_, bytes); }

Awaitable<ByteLease> ByteBudget::acquire(std::shared_ptr<State> state, std::size_t bytes) {
  std::shared_ptr<Waiter> waiter;
  Start start = [&](const Resume& resume) {
    waiter = std::make_shared<Waiter>(bytes, resume);
    {
      const std::lock_guard lock(state->mutex);
      if (state->is_closed) {
        waiter->grant = Grant::refused;
      } else if (state->waiters.empty() && state->fits(bytes)) {
        waiter->grant = Grant::granted;
        state->leased_bytes += bytes;
      } else {
        state->waiters.push_back(waiter);
        return;
      }
    }
    resume();
  };
  OnCancel leave = [&](const Resume& resume) {
    std::vector<Resume> granted;
    {
      const std::lock_guard lock(state->mutex);
      if (std::erase(state->waiters, waiter) == 0) {
        return;  // Granted or refused already; that resumption is on its way.
      }
      granted = state->grant_waiters();  // The one in front may have been the one that did not fit.
    }
    resume(cancelled());
    for (const Resume& next : granted) {
      next();
    }
  };
  co_await suspend(std::move(start), std::move(leave));
  if (waiter->grant == Grant::refused) {
    throw Error(Errc::closed, "the byte budget was closed");
  }
  co_return ByteLease(std::move(state), bytes);
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
  std::deque<std::shared_ptr<Waiter>> refused;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_closed = true;
    refused.swap(state_->waiters);
    for (const auto& waiter : refused) {
      waiter->grant = Grant::refused;
    }
  }
  for (const auto& waiter : refused) {
    waiter->resume();
  }
}

std::size_t ByteBudget::capacity_bytes() const noexcept { return state_->capacity_bytes; }

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
