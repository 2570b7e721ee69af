// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "async/internal/event.hpp"
#include "base/internal/mutex.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::store {

/// The order in which saves of one target are published: that of their calls.
///
/// A target is a name in a directory, known by device and inode: two paths may lead to it. A save keeps its ticket
/// until nothing of it runs, also when it was given up: what it still does to the target must not meet what a later
/// one does.
/// Threads: every method may be called from any thread.
class PublicationOrder {
 public:
  /// A ticket for the order, kept until it goes away.
  class Ticket;

  /// Returns the order of this process: two contexts may save to one target.
  static const std::shared_ptr<PublicationOrder>& of_process();

  /// Takes the next ticket for a target. Its turn comes when all before it have gone.
  ///
  /// `meanwhile` is called before another save can enter. A save that waits in a second queue enters that one there:
  /// so the order is the same in both, and no two saves wait for each other.
  static std::shared_ptr<Ticket> enter(const std::shared_ptr<PublicationOrder>& order,
                                       const io::FileId& directory, const std::string& name,
                                       const std::function<void()>& meanwhile = {});

 private:
  /// With the process, because a child that was forked inherits the tickets of saves that do not run there.
  using Key = std::tuple<pid_t, std::uint64_t, std::uint64_t, std::string>;

  void leave(const Ticket& ticket) noexcept;

  Mutex mutex_;
  std::map<Key, std::list<const Ticket*>> tickets_ CAIRN_GUARDED_BY(mutex_);
};

class PublicationOrder::Ticket {
 public:
  Ticket(std::shared_ptr<PublicationOrder> order, Key key) : order_(std::move(order)), key_(std::move(key)) {}
  ~Ticket() { order_->leave(*this); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  /// Happens when this ticket is the first.
  [[nodiscard]] const async::Event& turn() const noexcept { return turn_; }

 private:
  friend class PublicationOrder;

  std::shared_ptr<PublicationOrder> order_;
  Key key_;
  async::Event turn_;
};

}  // namespace cairn::store
