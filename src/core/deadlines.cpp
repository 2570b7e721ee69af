// SPDX-License-Identifier: Apache-2.0
#include "core/deadlines.hpp"

#include <utility>

#include "base/internal/assert.hpp"

namespace cairn::core {

void Deadlines::at(async::Timers::TimePoint when, std::function<void()> call) {
  CAIRN_ASSERT(call, "something happens at a deadline");
  const auto id = timers_.at(when, [&pool = pool_, call = std::move(call)] { pool.submit(call); });
  const MutexLock lock(mutex_);
  ids_.push_back(id);
}

void Deadlines::forget() {
  std::vector<async::Timers::Id> ids;
  {
    const MutexLock lock(mutex_);
    ids.swap(ids_);
  }
  for (const async::Timers::Id id : ids) {
    timers_.forget(id);
  }
}

}  // namespace cairn::core
