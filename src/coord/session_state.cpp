// SPDX-License-Identifier: Apache-2.0
#include "coord/session_state.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/packed.hpp"
#include "base/internal/probe.hpp"

namespace cairn::coord {
namespace {

std::string encode_purpose(const SessionPurpose& purpose) {
  std::string body;
  put_text(body, purpose.kind);
  put_text(body, purpose.what);
  return body;
}

SessionPurpose decode_purpose(std::string_view body) {
  SessionPurpose purpose;
  purpose.kind = take_text(body);
  purpose.what = take_text(body);
  return purpose;
}

}  // namespace

SessionState::SessionState(Transport& transport, const Tree& tree, const CoordinatorOptions& options,
                           std::shared_ptr<LostRanks> lost, std::uint64_t number)
    : number_(number),
      tree_(tree),
      options_(options),
      lost_(std::move(lost)),
      rank_(transport.rank()),
      children_(tree.children(rank_)),
      transport_(&transport) {
  if (rank_ != 0) {
    parent_ = tree_.parent(rank_);
    neighbours_.push_back({parent_});
    CAIRN_ASSERT(parent_ < rank_, "a parent has a lower rank");
  }
  for (const std::size_t child : children_) {
    neighbours_.push_back({child});
    CAIRN_ASSERT(child > rank_ && child < tree_.size, "a child is a higher rank of the job");
  }
}

std::exception_ptr SessionState::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

void SessionState::join(FailureScope scope, const SessionPurpose& purpose, Timeout join_timeout) {
  {
    const MutexLock lock(mutex_);
    CAIRN_ASSERT(!has_joined_ && !has_left_, "a session is joined once");
    has_joined_ = true;
    failure_scope_ = scope;
    join_timeout_ = join_timeout > join_timeout.zero() ? join_timeout : options_.join_timeout;
    if (transport_ == nullptr || neighbours_.empty()) {
      return;
    }
    last_tick_ = transport_->now();
    const Packet joined = packet_of(PacketKind::joined, {}, encode_purpose(purpose));
    for (const Neighbour& neighbour : neighbours_) {
      send(neighbour.rank, joined);
    }
  }
  note_purpose(rank_, purpose);
  tick_later();
}

void SessionState::note_purpose(std::size_t rank, const SessionPurpose& purpose) {
  std::string difference;
  {
    const MutexLock lock(mutex_);
    if (!purpose_) {
      purpose_.emplace(rank, purpose);
    }
    const auto& [first, known] = *purpose_;
    if (known.kind == purpose.kind) {
      return;
    }
    // The higher rank first: whoever hears of the two says the same.
    const auto words = [](std::size_t who, const SessionPurpose& says) {
      return fmt::format("rank {} {} {}", who, says.kind, says.what);
    };
    difference = rank > first ? fmt::format("{}, while {}", words(rank, purpose), words(first, known))
                              : fmt::format("{}, while {}", words(first, known), words(rank, purpose));
  }
  CAIRN_PROBE("coord.ranks_do_different_things");
  fail_together(Error(Errc::invalid_argument, difference));
}

std::vector<std::shared_ptr<Round>> SessionState::open_rounds() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Round>> open;
  for (const auto& [key, round] : rounds_) {
    if (round->is_begun) {
      open.push_back(round);
    }
  }
  return open;
}

bool SessionState::leave() noexcept {
  const MutexLock lock(mutex_);
  if (!has_joined_ || has_left_) {
    return false;
  }
  has_left_ = true;
  const Packet left = packet_of(PacketKind::left, {}, {});
  for (const Neighbour& neighbour : neighbours_) {
    send(neighbour.rank, left);
  }
  return true;
}

bool SessionState::is_needed() const noexcept {
  const MutexLock lock(mutex_);
  return !has_left_ || may_be_asked();
}

bool SessionState::may_be_asked() const noexcept {
  const bool has_words = transport_ != nullptr && !failure_ && !words_.empty();
  return has_words && std::any_of(neighbours_.begin(), neighbours_.end(), [this](const Neighbour& each) {
           return !each.has_left && each.silence <= 2 * std::chrono::nanoseconds(options_.lost_after);
         });
}

void SessionState::miss(std::size_t rank) noexcept {
  {
    const MutexLock lock(mutex_);
    if (!has_joined_ || (failure_scope_ == FailureScope::root && !tree_.is_above(rank, rank_))) {
      return;
    }
  }
  fail(std::make_exception_ptr(closed_by(rank)));
}

void SessionState::lose(const std::exception_ptr& why) noexcept {
  {
    const MutexLock lock(mutex_);
    if (!has_joined_ || failure_scope_ != FailureScope::job) {
      return;
    }
  }
  fail(why);
}

void SessionState::close() noexcept {
  Packet word;  // Empty: what has failed.
  {
    const MutexLock lock(mutex_);
    if (failure_scope_ == FailureScope::root && rank_ != 0) {
      word = packet_of(PacketKind::left, {}, {});  // Those below can hear rank 0 without this rank.
    }
  }
  fail(std::make_exception_ptr(Error(Errc::closed, "the coordinator was closed")), rank_, word);
  const MutexLock lock(mutex_);
  transport_ = nullptr;
}

// Sending.

Packet SessionState::packet_of(PacketKind kind, const Key& key, std::string_view body) const {
  return std::make_shared<const std::string>(encode({number_, kind, key.second, key.first}, body));
}

void SessionState::send(std::size_t to, const Packet& packet) {
  if (transport_ != nullptr) {
    has_spoken_ = true;
    transport_->send(to, packet);
  }
}

void SessionState::send_down(const Packet& packet) {
  for (const Neighbour& neighbour : neighbours_) {
    if (!is_parent(neighbour.rank)) {
      send(neighbour.rank, packet);
    }
  }
}

void SessionState::send_scattered(const Key& key, std::vector<RankedText> texts) {
  std::map<std::size_t, std::vector<RankedText>> by_child;
  for (RankedText& text : texts) {
    if (text.first == rank_) {
      round_at(key).text = std::move(text.second);
    } else {
      by_child[tree_.child_towards(rank_, text.first)].push_back(std::move(text));
    }
  }
  for (const auto& [child, parts] : by_child) {
    send(child, packet_of(PacketKind::scatter, key, encode_texts(parts)));
  }
}

// Rounds.

Round& SessionState::round_at(const Key& key) {
  std::shared_ptr<Round>& round = rounds_[key];
  if (!round) {
    round = std::make_shared<Round>();
  }
  return *round;
}

std::shared_ptr<Round> SessionState::begin(const Key& key) {
  round_at(key);
  const std::shared_ptr<Round> round = rounds_[key];
  if (round->is_begun) {
    throw Error(Errc::invalid_argument, fmt::format("the subject '{}' was begun twice", key.first));
  }
  round->is_begun = true;
  CAIRN_ASSERT(has_joined_ || failure_ || has_left_, "rounds begin in a session that was joined");
  if (failure_) {
    round->done.fail(failure_);
  }
  return round;
}

std::shared_ptr<Round> SessionState::begin_up(const std::string& channel, std::uint32_t number,
                                              std::string mine, Channel::Merge merge) {
  const Key key(channel, number);
  std::shared_ptr<Round> round;
  {
    const MutexLock lock(mutex_);
    round = begin(key);
    round->merge = std::move(merge);
    CAIRN_ASSERT(std::none_of(round->arrived.begin(), round->arrived.end(),
                              [this](const RankedText& each) { return each.first == rank_; }),
                 "a rank says one thing in a round");
    if (!round->merge) {
      const std::vector<RankedText> own = {{rank_, std::move(mine)}};
      mine = encode_texts(own);
    }
    round->arrived.emplace_back(rank_, std::move(mine));
  }
  pass_up(key, round);
  fail_if_somebody_left();
  return round;
}

void SessionState::take_up(std::size_t from, const Key& key, std::string_view body) {
  std::shared_ptr<Round> round;
  {
    const MutexLock lock(mutex_);
    round_at(key).arrived.emplace_back(from, body);
    round = rounds_[key];
  }
  pass_up(key, round);
}

void SessionState::pass_up(const Key& key, const std::shared_ptr<Round>& round) {
  std::vector<RankedText> arrived;
  {
    const MutexLock lock(mutex_);
    if (!round->is_begun || round->arrived.size() != children_.size() + 1 || failure_) {
      return;
    }
    arrived = std::exchange(round->arrived, {});  // Under the lock: of two last texts one goes on.
    rounds_.erase(key);
  }
  // Without the lock: what merges is the caller's, and may take its time.
  CAIRN_ASSERT(arrived.size() == children_.size() + 1, "a round goes up when all children have spoken");
  std::sort(arrived.begin(), arrived.end());
  try {
    if (round->merge) {
      std::vector<std::string> texts;
      for (RankedText& each : arrived) {
        texts.push_back(std::move(each.second));
      }
      round->text = round->merge(std::move(texts));
    } else {
      for (const RankedText& each : arrived) {
        round->text += each.second;
      }
    }
    if (rank_ == 0 && !round->merge) {
      round->texts = decode_texts(round->text);
      std::sort(round->texts.begin(), round->texts.end());
    }
  } catch (...) {
    CAIRN_PROBE("coord.merging_failed");
    fail(std::current_exception());
    round->done.fail(std::current_exception());
    return;
  }
  if (rank_ != 0) {
    const MutexLock lock(mutex_);
    send(parent_, packet_of(PacketKind::up, key, round->text));
  }
  round->done.set();
}

std::shared_ptr<Round> SessionState::begin_down(const std::string& channel, std::uint32_t number,
                                                std::string text) {
  const Key key(channel, number);
  return begin_downward(key, [&](Round& round) CAIRN_REQUIRES(mutex_) {
    const Packet packet = packet_of(PacketKind::down, key, text);
    send_down(packet);
    if (failure_scope_ == FailureScope::root) {
      words_.push_back(packet);
    }
    round.text = std::move(text);
  });
}

std::shared_ptr<Round> SessionState::begin_scatter(const std::string& channel, std::uint32_t number,
                                                   std::vector<std::string> by_rank) {
  const Key key(channel, number);
  return begin_downward(key, [&](Round& /*round*/) CAIRN_REQUIRES(mutex_) {
    std::vector<RankedText> texts;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      texts.emplace_back(rank, std::move(by_rank[rank]));
    }
    send_scattered(key, std::move(texts));
  });
}

// The text may have come before this rank began the round: then `take_down` has kept it, and has passed it on.
std::shared_ptr<Round> SessionState::begin_downward(const Key& key,
                                                    const std::function<void(Round&)>& speak) {
  std::shared_ptr<Round> round;
  {
    const MutexLock lock(mutex_);
    round = begin(key);
    if (rank_ == 0) {
      speak(*round);
      round->has_come = true;
    }
    if (round->has_come) {
      CAIRN_PROBE("coord.text_came_before_its_round");
      rounds_.erase(key);
      round->done.set();  // Under the lock, but nobody waits for it yet: no code of a waiter runs here.
    }
  }
  // The parent may have left before the round began: no packet will come that would make this look again.
  fail_if_somebody_left();
  return round;
}

void SessionState::take_down(const Key& key, const DecodedPacket& decoded, const Packet& packet) {
  std::shared_ptr<Round> round;
  {
    const MutexLock lock(mutex_);
    round_at(key);
    round = rounds_[key];
    // Passed on first, even when this rank has not begun the round: ranks below do not wait for a slow one.
    if (decoded.head.kind == PacketKind::scatter) {
      send_scattered(key, decode_texts(decoded.body));
    } else {
      send_down(packet);
      round->text = decoded.body;
    }
    round->has_come = true;
    if (!round->is_begun) {
      return;  // `begin_downward` finds it.
    }
    rounds_.erase(key);
  }
  round->done.set();  // Without the lock: what waits may run here, and call this object.
}

void SessionState::take_ask(std::size_t from) {
  const MutexLock lock(mutex_);
  if (rank_ != 0) {
    CAIRN_PROBE("coord.asked_although_not_rank_0");
    return;
  }
  const auto known = std::find_if(neighbours_.begin(), neighbours_.end(),
                                  [from](const Neighbour& each) { return each.rank == from; });
  Neighbour& neighbour = known != neighbours_.end() ? *known : neighbours_.emplace_back();
  neighbour.rank = from;
  neighbour.has_joined = true;
  neighbour.silence = {};
  if (failure_) {
    send(from, packet_of(PacketKind::fail, {}, encode_failure(rank_, failure_)));
  }
  for (const Packet& word : words_) {
    send(from, word);
  }
}

void SessionState::take_question(std::size_t from) {
  const MutexLock lock(mutex_);
  send(from, packet_of(PacketKind::here, {}, {}));
}

// Past the tree.

void SessionState::send_direct(const std::string& channel, std::span<const std::size_t> ranks,
                               std::string_view text, std::span<const std::byte> data) {
  std::string bytes = encode({number_, PacketKind::direct, 0, channel}, text);
  bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  const Packet packet = std::make_shared<const std::string>(std::move(bytes));
  const MutexLock lock(mutex_);
  if (failure_ || has_left_) {
    CAIRN_PROBE("coord.direct_packet_not_sent");
    return;  // Nobody waits for it any more.
  }
  for (const std::size_t rank : ranks) {
    send(rank, packet);
  }
}

std::shared_ptr<PendingReceive> SessionState::receive_direct(const std::string& channel) {
  const MutexLock lock(mutex_);
  const auto pending = std::make_shared<PendingReceive>();
  Mailbox& mailbox = mailboxes_[channel];
  CAIRN_ASSERT(mailbox.messages.empty() || mailbox.receivers.empty(),
               "no message lies beside somebody who waits for one");
  if (failure_) {
    pending->done.fail(failure_);  // Nobody waits for it yet.
  } else if (!mailbox.messages.empty()) {
    pending->message = std::move(mailbox.messages.front());
    mailbox.messages.pop_front();
    pending->done.set();
  } else {
    mailbox.receivers.push_back(pending);
  }
  return pending;
}

void SessionState::take_direct(std::size_t from, const DecodedPacket& decoded, const Packet& packet) {
  std::shared_ptr<PendingReceive> pending;
  {
    const MutexLock lock(mutex_);
    if (failure_ || has_left_) {
      return;
    }
    Mailbox& mailbox = mailboxes_[std::string(decoded.head.channel)];
    CAIRN_ASSERT(mailbox.messages.empty() || mailbox.receivers.empty(),
                 "nobody waits beside a message that has come");
    Message message{from, decoded.body, packet};
    if (mailbox.receivers.empty()) {
      mailbox.messages.push_back(std::move(message));
      return;
    }
    pending = std::move(mailbox.receivers.front());
    mailbox.receivers.pop_front();
    pending->message = std::move(message);
  }
  pending->done.set();
}

// Packets of neighbours.

void SessionState::receive(std::size_t from, const DecodedPacket& decoded, const Packet& packet) {
  const PacketKind kind = decoded.head.kind;
  if (kind == PacketKind::direct) {  // Of any rank.
    take_direct(from, decoded, packet);
    return;
  }
  if (kind == PacketKind::ask || kind == PacketKind::question) {
    kind == PacketKind::ask ? take_ask(from) : take_question(from);
    return;
  }
  {
    const MutexLock lock(mutex_);
    const auto neighbour = std::find_if(neighbours_.begin(), neighbours_.end(),
                                        [from](const Neighbour& each) { return each.rank == from; });
    if (neighbour == neighbours_.end()) {
      return;
    }
    neighbour->silence = {};
    neighbour->is_resting = kind == PacketKind::rest;
    neighbour->has_joined |= kind == PacketKind::joined;  // Its first word.
    neighbour->has_left |= kind == PacketKind::left;
    if (has_left_) {
      return;
    }
  }
  const Key key(decoded.head.channel, decoded.head.round);
  switch (kind) {
    case PacketKind::alive:
      note_missing(from, decoded.body);
      break;
    case PacketKind::joined:
      note_purpose(from, decode_purpose(decoded.body));
      break;
    case PacketKind::up:
      take_up(from, key, decoded.body);
      break;
    case PacketKind::down:
    case PacketKind::scatter:
      take_down(key, decoded, packet);
      break;
    case PacketKind::fail:
      if (is_bound_to(from)) {
        fail(decode_failure(decoded.body), from, packet);
      }
      break;
    case PacketKind::left:
      fail_if_somebody_left();
      break;
    case PacketKind::direct:  // See above.
    case PacketKind::ask:
    case PacketKind::question:
    case PacketKind::rest:
    case PacketKind::here:
    case PacketKind::notice:  // Belong to no session.
    case PacketKind::closed:
    case PacketKind::lost:
    case PacketKind::found:
      break;
  }
}

void SessionState::fail_together(const Error& why) noexcept {
  fail(std::make_exception_ptr(why), rank_, packet_of(PacketKind::fail, {}, encode_common_failure(why)));
}

void SessionState::fail(const std::exception_ptr& why, std::size_t from, const Packet& packet) noexcept {
  std::vector<async::Event> waiting;
  {
    const MutexLock lock(mutex_);
    if (failure_ || has_left_) {
      return;
    }
    failure_ = why;
    CAIRN_ASSERT(why != nullptr, "a session fails for a reason");
    const Packet passed_on = packet ? packet : packet_of(PacketKind::fail, {}, encode_failure(rank_, why));
    for (const Neighbour& neighbour : neighbours_) {
      if (neighbour.rank != from && !(is_parent(neighbour.rank) && failure_scope_ == FailureScope::root)) {
        send(neighbour.rank, passed_on);
      }
    }
    for (const auto& [key, round] : rounds_) {
      waiting.push_back(round->done);
    }
    for (const auto& [channel, mailbox] : mailboxes_) {
      for (const auto& pending : mailbox.receivers) {
        waiting.push_back(pending->done);
      }
    }
    rounds_.clear();
    mailboxes_.clear();
  }
  // Without the lock, as above.
  failed_.fail(why);
  for (const async::Event& each : waiting) {
    each.fail(why);
  }
}

bool SessionState::is_missing_from(const Neighbour& neighbour) const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& each) CAIRN_REQUIRES(mutex_) {
    const Round& round = *each.second;
    if (!round.is_begun) {
      return false;
    }
    const bool is_up = !round.arrived.empty();
    const bool is_above = is_parent(neighbour.rank);
    return is_up ? !is_above &&
                       std::none_of(round.arrived.begin(), round.arrived.end(),
                                    [&](const RankedText& text) { return text.first == neighbour.rank; })
                 : is_above;
  });
}

void SessionState::fail_if_somebody_left() {
  std::optional<std::size_t> missing;
  {
    const MutexLock lock(mutex_);
    for (Neighbour& neighbour : neighbours_) {
      if (neighbour.has_left && is_missing_from(neighbour) && !turn_to_root(neighbour)) {
        missing = neighbour.rank;
        CAIRN_PROBE("coord.left_before_its_part_was_done");
      }
    }
  }
  if (missing) {
    fail(std::make_exception_ptr(
        Error(Errc::peer_failed, fmt::format("rank {} has left before its part was done", *missing))));
  }
}

}  // namespace cairn::coord
