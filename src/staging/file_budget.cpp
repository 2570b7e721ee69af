// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/file_budget.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/internal/assert.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"

namespace cairn::staging {

struct FileBudget::State {
  Mutex mutex;
  std::size_t waiting CAIRN_GUARDED_BY(mutex) = 0;
  std::vector<async::Event> holders CAIRN_GUARDED_BY(mutex);  // Set when somebody waits.
  std::size_t kept_holders CAIRN_GUARDED_BY(mutex) = 0;  // When it was last cleared of those that have ended.
};

namespace {

constexpr std::size_t kFewHolders = 64;

}  // namespace

FileBudget::FileBudget(std::size_t descriptors)
    : semaphore_(descriptors), state_(std::make_shared<State>()) {}

FileBudget FileBudget::fair_share() const {
  FileBudget other = *this;
  other.semaphore_ = semaphore_.fair_share();
  return other;
}

Awaitable<async::Permit> FileBudget::acquire(std::size_t descriptors) const {
  return acquire(semaphore_, state_, descriptors);
}

Awaitable<async::Permit> FileBudget::acquire(async::Semaphore semaphore, std::shared_ptr<State> state,
                                             std::size_t descriptors) {
  async::Permit permit = semaphore.try_acquire(descriptors);
  if (permit) {
    co_return permit;
  }
  std::vector<async::Event> holders;
  {
    // First the count, then the events: who comes to hold a descriptor in between sees the count.
    const MutexLock lock(state->mutex);
    CAIRN_PROBE("staging.waits_for_descriptors");
    ++state->waiting;
    holders.swap(state->holders);
  }
  const auto leave = [](State* waited) {
    const MutexLock lock(waited->mutex);
    CAIRN_ASSERT(waited->waiting > 0, "whoever stops waiting was counted");
    --waited->waiting;
  };
  const std::unique_ptr<State, decltype(leave)> waits(state.get(), leave);
  for (const async::Event& holder : holders) {
    holder.set();
  }
  permit = co_await semaphore.acquire(descriptors);
  co_return permit;
}

void FileBudget::set_when_wanted(const async::Event& event) const {
  {
    const MutexLock lock(state_->mutex);
    if (state_->waiting == 0) {
      std::vector<async::Event>& holders = state_->holders;
      if (holders.size() >= 2 * state_->kept_holders + kFewHolders) {
        std::erase_if(holders, [](const async::Event& holder) { return holder.has_happened(); });
        state_->kept_holders = holders.size();
      }
      holders.push_back(event);
      return;
    }
  }
  event.set();
}

std::size_t FileBudget::capacity() const noexcept {
  return semaphore_.capacity();
}

std::size_t FileBudget::taken() const {
  return semaphore_.taken();
}

}  // namespace cairn::staging
