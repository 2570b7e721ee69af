// SPDX-License-Identifier: Apache-2.0
#include "store/internal/publication_order.hpp"

#include <unistd.h>

#include <optional>
#include <utility>

#include "base/internal/per_process.hpp"

namespace cairn::store {

namespace {

// Never destroyed: threads of a context that is still busy at the end of the program go on using it.
constinit PerProcess<std::shared_ptr<PublicationOrder>> orders;

}  // namespace

const std::shared_ptr<PublicationOrder>& PublicationOrder::of_process() {
  return orders.get([] {
    return std::make_unique<std::shared_ptr<PublicationOrder>>(std::make_shared<PublicationOrder>());
  });
}

std::shared_ptr<PublicationOrder::Place> PublicationOrder::enter(
    const std::shared_ptr<PublicationOrder>& order, const io::FileId& directory, const std::string& name,
    const std::function<void()>& meanwhile) {
  auto place = std::make_shared<Place>(order, Key(::getpid(), directory.device, directory.inode, name));
  const MutexLock lock(order->mutex_);
  std::list<const Place*>& places = order->places_[place->key_];
  places.push_back(place.get());
  if (places.size() == 1) {
    place->turn_.set();
  }
  if (meanwhile) {
    meanwhile();  // If it throws, the place goes once the lock is free: it was made before.
  }
  return place;
}

void PublicationOrder::leave(const Place& place) noexcept {
  if (std::get<pid_t>(place.key_) != ::getpid()) {
    return;  // Of the process that this one was forked from: its lock may never be free here.
  }
  std::optional<async::Event> next;
  {
    const MutexLock lock(mutex_);
    const auto found = places_.find(place.key_);
    if (found == places_.end()) {
      return;  // It never entered: there was no memory for its place.
    }
    std::list<const Place*>& places = found->second;
    const bool was_first = !places.empty() && places.front() == &place;
    places.remove(&place);
    if (places.empty()) {
      places_.erase(found);
    } else if (was_first) {
      next = places.front()->turn_;
    }
  }
  if (next) {
    next->set();
  }
}

}  // namespace cairn::store
