// SPDX-License-Identifier: Apache-2.0
#include "store/internal/publication_order.hpp"

#include <unistd.h>

#include <optional>
#include <utility>

#include "base/internal/assert.hpp"
#include "base/internal/per_process.hpp"
#include "base/internal/probe.hpp"

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

std::shared_ptr<PublicationOrder::Ticket> PublicationOrder::enter(
    const std::shared_ptr<PublicationOrder>& order, const io::FileId& directory, const std::string& name,
    const std::function<void()>& meanwhile) {
  auto ticket = std::make_shared<Ticket>(order, Key(::getpid(), directory.device, directory.inode, name));
  const MutexLock lock(order->mutex_);
  std::list<const Ticket*>& tickets = order->tickets_[ticket->key_];
  tickets.push_back(ticket.get());
  CAIRN_ASSERT(std::count(tickets.begin(), tickets.end(), ticket.get()) == 1,
               "a save has one ticket for its target");
  if (tickets.size() == 1) {
    ticket->turn_.set();
  }
  if (meanwhile) {
    meanwhile();  // If it throws, the ticket goes once the lock is free: it was made before.
  }
  return ticket;
}

void PublicationOrder::leave(const Ticket& ticket) noexcept {
  if (std::get<pid_t>(ticket.key_) != ::getpid()) {
    return;  // Of the process that this one was forked from: its lock may never be free here.
  }
  std::optional<async::Event> next;
  {
    const MutexLock lock(mutex_);
    const auto found = tickets_.find(ticket.key_);
    if (found == tickets_.end()) {
      CAIRN_PROBE("store.ticket_never_entered");
      return;  // It never entered: there was no memory for its ticket.
    }
    std::list<const Ticket*>& tickets = found->second;
    const bool was_first = !tickets.empty() && tickets.front() == &ticket;
    tickets.remove(&ticket);
    if (tickets.empty()) {
      tickets_.erase(found);
    } else if (was_first) {
      next = tickets.front()->turn_;
    }
  }
  if (next) {
    next->set();
  }
}

}  // namespace cairn::store
