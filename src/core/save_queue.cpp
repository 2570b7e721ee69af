// SPDX-License-Identifier: Apache-2.0
#include "core/save_queue.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "core/save_job.hpp"

namespace cairn::core {

SaveQueue::SaveQueue(std::size_t most) : most_(most != 0 ? most : std::numeric_limits<std::size_t>::max()) {}

SaveQueue::Entered SaveQueue::enter(const std::shared_ptr<SaveJob>& save, io::FileId directory) {
  Entry entry;
  entry.save = save;
  entry.key = save.get();
  if (save->options().coalesce) {
    entry.series = directory;
  }
  Entered entered{entry.turn, {}};
  const MutexLock lock(mutex_);
  bool is_oldest = true;
  CAIRN_ASSERT(std::none_of(entries_.begin(), entries_.end(),
                            [&save](const Entry& each) { return each.key == save.get(); }),
               "a save enters the queue once");
  for (const Entry& earlier : entries_) {
    if (entry.series && earlier.series == entry.series && !std::exchange(is_oldest, false)) {
      CAIRN_PROBE("core.save_passed_by_a_later_one");
      entered.passed.push_back(earlier.save.lock());
    }
  }
  entries_.push_back(std::move(entry));
  if (entries_.size() <= most_) {
    entered.turn.set();
  }
  return entered;
}

void SaveQueue::leave(const SaveJob* save) noexcept {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [save](const Entry& entry) { return entry.key == save; });
  if (found == entries_.end()) {
    CAIRN_PROBE("core.save_given_up_before_its_turn");
    return;
  }
  entries_.erase(found);
  if (entries_.size() >= most_) {
    std::next(entries_.begin(), static_cast<std::ptrdiff_t>(most_ - 1))->turn.set();
  }
}

}  // namespace cairn::core
