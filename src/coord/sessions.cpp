// SPDX-License-Identifier: Apache-2.0
#include "coord/sessions.hpp"

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/packed.hpp"
#include "base/internal/probe.hpp"

namespace cairn::coord {
namespace {

/// Stands for no session, in a question whether a rank is there.
constexpr std::uint64_t kNoSession = std::numeric_limits<std::uint64_t>::max();
/// Each call takes so many numbers, however many sessions it joins: after ranks have called different things their next
/// calls meet again.
constexpr std::size_t kNumbersOfACall = 2;

}  // namespace

Sessions::Sessions(Transport& transport, const CoordinatorOptions& options)
    : transport_(&transport),
      options_(options),
      rank_(transport.rank()),
      tree_{transport.size(), options.fan_out},
      lost_(std::make_shared<LostRanks>(transport, tree_, options)) {}

std::shared_ptr<SessionState> Sessions::find(std::uint64_t number) {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(number);
  if (found != sessions_.end()) {
    return found->second;
  }
  if (number < next_ || is_closed_) {
    CAIRN_PROBE("coord.packet_of_a_session_that_ended");
    return nullptr;
  }
  auto made = std::make_shared<SessionState>(*transport_, tree_, options_, lost_, number);
  sessions_.emplace(number, made);
  return made;
}

std::vector<std::shared_ptr<SessionState>> Sessions::all() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<SessionState>> sessions;
  for (const auto& [number, session] : sessions_) {
    sessions.push_back(session);
  }
  return sessions;
}

std::vector<std::shared_ptr<SessionState>> Sessions::join(const std::vector<FailureScope>& scopes,
                                                          const SessionPurpose& purpose,
                                                          Timeout join_timeout) {
  CAIRN_ASSERT(!scopes.empty() && scopes.size() <= kNumbersOfACall, "a call has a number for each session");
  std::vector<std::shared_ptr<SessionState>> joined;
  std::vector<std::shared_ptr<SessionState>> passed_over;  // Others have joined them here.
  {
    const MutexLock lock(mutex_);
    if (is_closed_) {
      throw Error(Errc::closed, "the coordinator was closed");
    }
    std::erase_if(sessions_, [](const auto& each) { return !each.second->is_needed(); });
    for (std::size_t i = 0; i < kNumbersOfACall; ++i, ++next_) {
      if (i >= scopes.size()) {
        if (const auto met = sessions_.find(next_); met != sessions_.end()) {
          passed_over.push_back(met->second);
        }
        continue;
      }
      std::shared_ptr<SessionState>& slot = sessions_[next_];
      if (!slot) {
        slot = std::make_shared<SessionState>(*transport_, tree_, options_, lost_, next_);
      }
      joined.push_back(slot);
      CAIRN_ASSERT(slot->number() == next_, "sessions are joined in the order of their numbers");
    }
  }
  for (const auto& session : passed_over) {
    CAIRN_PROBE("coord.session_passed_over");
    session->join(FailureScope::root, {}, {});
    session->leave();
    forget(session->number());
  }
  for (std::size_t i = 0; i < joined.size(); ++i) {
    joined[i]->join(scopes[i], i == 0 ? purpose : SessionPurpose(), join_timeout);
    miss_those_gone(*joined[i]);  // `take_closed` tells it of those that go later.
    if (const std::exception_ptr why = lost_->failure()) {
      joined[i]->lose(why);
    }
  }
  return joined;
}

void Sessions::receive(std::size_t from, const Packet& packet) noexcept {
  try {
    const DecodedPacket decoded = decode(*packet);
    if (decoded.head.kind == PacketKind::closed) {
      take_closed(from, decoded, packet);
    } else if (decoded.head.kind == PacketKind::lost) {
      take_lost(from, decoded, packet);
    } else if (decoded.head.kind == PacketKind::found) {
      lost_->take_found(from, decoded, packet);
    } else if (decoded.head.session == kNoSession) {
      if (decoded.head.kind == PacketKind::question) {
        say(from, PacketKind::here, kNoSession);
      } else {
        lost_->take_answer(from);
      }
    } else if (const auto session = find(decoded.head.session)) {
      session->receive(from, decoded, packet);
    } else if (decoded.head.kind == PacketKind::ask || decoded.head.kind == PacketKind::question ||
               decoded.head.kind == PacketKind::joined) {
      CAIRN_PROBE("coord.asked_about_a_session_that_ended");
      say(from, PacketKind::left, decoded.head.session);
    }
  } catch (...) {  // Bytes that no rank of ours sends, or no memory: nobody may wait for what was in them.
    CAIRN_PROBE("coord.packet_not_understood");
    for (const auto& session : all()) {
      session->fail(std::current_exception());
    }
  }
}

/// Fails the sessions that need the lost rank. Sessions that begin later fail at once when they are joined.
void Sessions::take_lost(std::size_t from, const DecodedPacket& decoded, const Packet& packet) {
  lost_->take_lost(from, decoded, packet);
  const std::exception_ptr why = lost_->failure();
  for (const auto& session : all()) {
    if (why && session->number() >= decoded.head.session) {
      session->lose(why);
    }
  }
}

bool Sessions::ask(std::size_t rank) {
  std::uint64_t next = 0;
  {
    const MutexLock lock(mutex_);
    if (gone_.contains(rank)) {
      throw closed_by(rank);
    }
    if (is_closed_ || !transport_->has_thread(rank)) {
      return true;
    }
    next = next_;
  }
  const bool is_answered = lost_->ask(rank, next);
  say(rank, PacketKind::question, kNoSession);
  return is_answered;
}

void Sessions::say(std::size_t to, PacketKind kind, std::uint64_t number) const {
  PacketHead head;
  head.session = number;
  head.kind = kind;
  {
    const MutexLock lock(mutex_);
    if (is_closed_) {
      return;
    }
  }
  transport_->send(to, std::make_shared<const std::string>(encode(head, {})));
}

void Sessions::forget(std::uint64_t number) noexcept {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(number);
  if (found != sessions_.end() && !found->second->is_needed()) {
    sessions_.erase(found);
  }
}

bool Sessions::rest() noexcept {
  bool has_said_so = false;
  for (const auto& session : all()) {
    has_said_so |= session->rest();
  }
  return has_said_so;
}

void Sessions::close() noexcept {
  PacketHead farewell;
  farewell.kind = PacketKind::closed;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(is_closed_, true)) {
      return;
    }
    farewell.session = next_;
  }
  for (const auto& session : all()) {
    session->close();
  }
  lost_->close();
  try {
    std::string body;
    put(body, static_cast<std::uint32_t>(rank_));
    pass_on(std::make_shared<const std::string>(encode(farewell, body)), rank_);
  } catch (...) {  // No memory: the others wait until their deadline.
    CAIRN_PROBE("coord.no_memory_for_a_farewell");
  }
}

void Sessions::pass_on(const Packet& packet, std::size_t from) const {
  for (const std::size_t neighbour : tree_.neighbours(rank_)) {
    if (neighbour != from) {
      transport_->send(neighbour, packet);
    }
  }
}

void Sessions::take_closed(std::size_t from, const DecodedPacket& decoded, const Packet& packet) {
  std::string_view body = decoded.body;
  const auto rank = take<std::uint32_t>(body);
  {
    const MutexLock lock(mutex_);
    if (is_closed_ || !gone_.emplace(rank, decoded.head.session).second) {
      return;
    }
  }
  pass_on(packet, from);
  CAIRN_PROBE("coord.another_rank_has_closed");
  for (const auto& session : all()) {
    miss_those_gone(*session);
  }
}

void Sessions::miss_those_gone(SessionState& session) const {
  std::map<std::size_t, std::uint64_t> gone;
  {
    const MutexLock lock(mutex_);
    gone = gone_;
  }
  for (const auto& [rank, first] : gone) {
    if (session.number() >= first) {
      session.miss(rank);
    }
  }
}

}  // namespace cairn::coord
