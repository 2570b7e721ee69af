// SPDX-License-Identifier: Apache-2.0
// Signs of life between neighbours: who is lost, who is late, and whom all wait for.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/packed.hpp"
#include "base/internal/probe.hpp"
#include "coord/session_state.hpp"

namespace cairn::coord {
void SessionState::tick_later() {
  const MutexLock lock(mutex_);
  if (transport_ != nullptr && !failure_ && (!has_left_ || may_be_asked())) {
    transport_->call_after(options_.heartbeat, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->tick();
      }
    });
  }
}

bool SessionState::is_bound_to(std::size_t neighbour) const {
  const MutexLock lock(mutex_);
  return failure_scope_ == FailureScope::job || is_parent(neighbour);
}

bool SessionState::is_parent(std::size_t neighbour) const noexcept {
  return rank_ != 0 && neighbour == parent_;
}

bool SessionState::turn_to_root(Neighbour& gone) {
  if (failure_scope_ != FailureScope::root || !is_parent(gone.rank) || parent_ == 0) {
    return false;
  }
  parent_ = 0;
  CAIRN_PROBE("coord.turned_to_rank_0");
  is_orphan_ = true;
  gone = {};  // From here on it is rank 0, which has its own time to be silent.
  gone.has_joined = true;
  CAIRN_ASSERT(is_orphan_ && rank_ != 0, "only a rank below another one turns to rank 0");
  send(parent_, packet_of(PacketKind::ask, {}, {}));
  return true;
}

void SessionState::count_silence(std::chrono::nanoseconds elapsed) {
  for (Neighbour& neighbour : neighbours_) {
    if (!neighbour.is_resting || has_left_) {  // For a rank that rests, what was said is not kept for ever.
      neighbour.silence += elapsed;
    }
    if (!neighbour.has_joined) {
      neighbour.waited += elapsed;
    }
  }
}

bool SessionState::is_needed_here(const Neighbour& neighbour) const {
  return !neighbour.has_left && (failure_scope_ == FailureScope::job || is_parent(neighbour.rank));
}

const SessionState::Neighbour* SessionState::find_lost() {
  for (Neighbour& neighbour : neighbours_) {
    // One that has not joined answers questions, where its transport has a thread for that.
    const bool would_speak = neighbour.has_joined || transport_->has_thread(neighbour.rank);
    if (is_needed_here(neighbour) && would_speak && neighbour.silence > options_.lost_after &&
        !turn_to_root(neighbour)) {
      return &neighbour;
    }
  }
  return nullptr;
}

SomeRanks SessionState::find_late() const {
  SomeRanks late;
  for (const Neighbour& neighbour : neighbours_) {
    if (is_needed_here(neighbour) && !neighbour.has_joined && join_timeout_.count() != 0 &&
        neighbour.waited > join_timeout_) {
      late.add(neighbour.rank);
      CAIRN_PROBE("coord.rank_joined_too_late");
    }
  }
  return late;
}

void SessionState::note_missing(std::size_t from, std::string_view body) {
  const MutexLock lock(mutex_);
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.rank == from) {
      neighbour.missing = body.empty() ? SomeRanks() : take_ranks(body);
    }
  }
}

SomeRanks SessionState::missing() const {
  const MutexLock lock(mutex_);
  SomeRanks missing = missing_of_all();
  if (missing.remove(rank_) && missing.count == 0 && waits_above()) {
    missing.add(std::size_t{0});  // Those above have not heard yet that this rank has said its part.
  }
  return missing;
}

bool SessionState::waits_above() const {
  return std::any_of(neighbours_.begin(), neighbours_.end(),
                     [this](const Neighbour& each)
                         CAIRN_REQUIRES(mutex_) { return is_parent(each.rank) && is_missing_from(each); });
}

SomeRanks SessionState::missing_below() const {
  SomeRanks missing;
  for (const Neighbour& neighbour : neighbours_) {
    if (is_parent(neighbour.rank) || !is_missing_from(neighbour)) {
      continue;
    }
    if (neighbour.missing.count != 0) {
      missing.add(neighbour.missing);  // It waits for others itself.
    } else {
      missing.add(neighbour.rank);
    }
  }
  return missing;
}

SomeRanks SessionState::missing_of_all() const {
  SomeRanks missing = missing_below();
  for (const Neighbour& neighbour : neighbours_) {
    if (!is_parent(neighbour.rank)) {
      continue;
    }
    if (!neighbour.has_joined) {
      missing.add(neighbour.rank);
    } else if (neighbour.missing.count != 0) {
      return neighbour.missing;  // What this rank misses is among it.
    }
  }
  if (missing.count == 0 && waits_above()) {
    missing.add(std::size_t{0});  // It waits for nobody, or says nothing of it yet.
  }
  return missing;
}

Packet SessionState::alive_packet(const SomeRanks& missing) const {
  std::string body;
  if (missing.count != 0) {
    put_ranks(body, missing);
  }
  return packet_of(PacketKind::alive, {}, body);
}

bool SessionState::rest() noexcept {
  const MutexLock lock(mutex_);
  if (!has_joined_ || has_left_ || failure_ || !has_spoken_) {
    return false;
  }
  const Packet rest = packet_of(PacketKind::rest, {}, {});
  for (const Neighbour& neighbour : neighbours_) {
    if (!neighbour.has_left) {
      send(neighbour.rank, rest);
    }
  }
  has_spoken_ = false;
  return true;
}

void SessionState::send_signs_of_life() {
  const Packet up = is_orphan_ ? packet_of(PacketKind::ask, {}, {}) : alive_packet(missing_below());
  const Packet down = alive_packet(missing_of_all());
  for (const Neighbour& neighbour : neighbours_) {
    if (neighbour.has_left) {
      continue;
    }
    send(neighbour.rank, is_parent(neighbour.rank) ? up : down);
    if (!neighbour.has_joined && is_needed_here(neighbour) && transport_->has_thread(neighbour.rank)) {
      send(neighbour.rank, packet_of(PacketKind::question, {}, {}));
    }
  }
}

void SessionState::tick() {
  std::optional<std::size_t> lost;
  std::optional<Error> failure;
  {
    const MutexLock lock(mutex_);
    if (transport_ == nullptr || failure_ || (has_left_ && !may_be_asked())) {
      return;
    }
    const Transport::Time now = transport_->now();
    count_silence(silence_of(now - last_tick_, options_));
    last_tick_ = now;
    const Neighbour* const neighbour = has_left_ ? nullptr : find_lost();
    if (neighbour != nullptr) {
      lost = neighbour->rank;
      CAIRN_ASSERT(*lost != rank_ && !neighbour->has_left,
                   "a rank that is lost is another one, and has not left");
      CAIRN_PROBE("coord.neighbour_is_silent");
      failure.emplace(
          Errc::peer_lost,
          fmt::format("rank {} is lost: it has been silent for {} ms; {}", *lost,
                      std::chrono::duration_cast<std::chrono::milliseconds>(neighbour->silence).count(),
                      kEndAndStartAgain));
    } else if (const SomeRanks late = find_late(); late.count != 0) {
      failure.emplace(Errc::peer_failed, fmt::format("{} {} not joined within join_timeout", to_string(late),
                                                     late.count == 1 ? "has" : "have"));
    }
    if (!has_left_) {
      send_signs_of_life();
    }
  }
  if (failure) {
    fail(std::make_exception_ptr(*failure));
  }
  if (lost) {
    lost_->find(*lost, number_);
  }
  tick_later();
}

}  // namespace cairn::coord
