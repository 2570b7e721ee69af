// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "async/internal/event.hpp"
#include "core/save_queue.hpp"
#include "store/internal/publication_order.hpp"
#include "store/internal/store.hpp"

namespace cairn::core {

/// Has the places of a save in two queues: among the saves of its context, of which only so many go on at once, and on
/// rank 0 among those of its target, which publish in the order of their calls.
///
/// Threads: the strand of the save, but for `leave_context` and `accepted`: any.
class SaveTurn {
 public:
  explicit SaveTurn(SaveQueue& queue) noexcept : queue_(queue) {}

  /// Happens when the save has its places, or has ended without them.
  [[nodiscard]] const async::Event& accepted() const noexcept { return accepted_; }

  /// Enters both queues in one step, and tells the saves that this one passes that they must yield. `target` is null
  /// where this rank cannot see it; `publishes` on rank 0. Returns what happens when the save may go on.
  [[nodiscard]] async::Event enter(const std::shared_ptr<SaveJob>& save, const store::Destination* target,
                                   bool publishes);

  /// Happens when the saves before this one have published to its target, or will not. Rank 0, after `enter`.
  [[nodiscard]] const async::Event& may_publish() const noexcept { return ticket_->turn(); }

  /// Lets the next save of the context go on. Does nothing for one that has left.
  void leave_context(const SaveJob& save) noexcept { queue_.leave(&save); }

  /// Lets the next save of the target publish.
  void leave_target() noexcept { ticket_.reset(); }

 private:
  SaveQueue& queue_;
  async::Event accepted_;
  /// Null: it publishes nothing, or has no place yet.
  std::shared_ptr<store::PublicationOrder::Ticket> ticket_;
};

}  // namespace cairn::core
