// SPDX-License-Identifier: Apache-2.0
#include "contract/internal/kept_values.hpp"

#include <algorithm>

namespace cairn::contract {

std::shared_ptr<const void> KeptValues::find(const Key& key) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    return nullptr;
  }
  found->second.last_use = ++uses_;
  return found->second.value;
}

void KeptValues::keep(Key key, std::shared_ptr<const void> value) {
  std::shared_ptr<const void> forgotten;  // Its destructor is a handler's: it runs without the lock.
  const MutexLock lock(mutex_);
  Entry& entry = entries_[std::move(key)];
  forgotten = std::exchange(entry.value, std::move(value));
  entry.last_use = ++uses_;
  if (entries_.size() > kMost) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a.second.last_use < b.second.last_use;
    });
    forgotten = std::move(oldest->second.value);
    entries_.erase(oldest);
  }
}

}  // namespace cairn::contract
