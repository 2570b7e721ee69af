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
/// A target is a name in a directory, known by device and inode: two paths may lead to it. A save keeps its place until
/// nothing of it runs, also when it was given up: what it still does to the target must not meet what a later one does.
/// Threads: every method may be called from any thread.
class PublicationOrder {
 public:
  /// A place in the order, kept until it goes away.
  class Place;

  /// That of this process: two contexts may save to one target.
  static const std::shared_ptr<PublicationOrder>& of_process();

  /// Takes the next place at a target. Its turn comes when all before it have gone.
  ///
  /// `meanwhile` is called before another save can enter. A save that waits in a second queue enters that one there: so the order is the
  /// same in both, and no two saves wait for each other.
  static std::shared_ptr<Place> enter(const std::shared_ptr<PublicationOrder>& order,
                                      const io::FileId& directory, const std::string& name,
                                      const std::function<void()>& meanwhile = {});

 private:
  /// With the process, because a child that was forked inherits the places of saves that do not run there.
  using Key = std::tuple<pid_t, std::uint64_t, std::uint64_t, std::string>;

  void leave(const Place& place) noexcept;

  Mutex mutex_;
  std::map<Key, std::list<const Place*>> places_ CAIRN_GUARDED_BY(mutex_);
};

class PublicationOrder::Place {
 public:
  Place(std::shared_ptr<PublicationOrder> order, Key key) : order_(std::move(order)), key_(std::move(key)) {}
  ~Place() { order_->leave(*this); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  /// Happens when this place is the first.
  [[nodiscard]] const async::Event& turn() const noexcept { return turn_; }

 private:
  friend class PublicationOrder;

  std::shared_ptr<PublicationOrder> order_;
  Key key_;
  async::Event turn_;
};

}  // namespace cairn::store
