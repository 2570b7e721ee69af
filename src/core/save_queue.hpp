// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "async/internal/event.hpp"
#include "base/internal/mutex.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::core {

class SaveJob;

/// The saves of a context that are under way, in the order of their calls: only so many go on at once.
///
/// Threads: every method may be called from any thread.
class SaveQueue {
 public:
  /// Lets `most` go on at once; 0: all.
  explicit SaveQueue(std::size_t most);

  /// The answer to a save that enters.
  struct Entered {
    async::Event turn;  ///< Happens when it may go on.
    /// Saves that must yield to it (SaveJob::yield_to); null where one has ended meanwhile.
    std::vector<std::shared_ptr<SaveJob>> passed;
  };

  /// Enters a save. Waits for nobody, and calls nobody.
  ///
  /// `directory` is that of its target. A save that coalesces passes the earlier ones that coalesce in the same
  /// directory, all but the oldest: so one is always completed, however quickly others follow.
  [[nodiscard]] Entered enter(const std::shared_ptr<SaveJob>& save, io::FileId directory);

  /// Lets the next one go on. Does nothing for a save that has left.
  void leave(const SaveJob* save) noexcept;

 private:
  struct Entry {
    std::weak_ptr<SaveJob> save;
    const SaveJob* key = nullptr;
    async::Event turn;
    std::optional<io::FileId> series;  ///< The directory of its target; nothing: it does not coalesce.
  };

  std::size_t most_;
  Mutex mutex_;
  std::list<Entry> entries_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::core
