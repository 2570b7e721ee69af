// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"

#include "async/internal/event.hpp"
#include "base/internal/mutex.hpp"
#include "coord/lost_ranks.hpp"
#include "coord/packet.hpp"
#include "coord/tree.hpp"

namespace cairn::coord {

/// One round of a channel, here. What others send may come before the round has begun here.
struct Round {
  async::Event done;
  std::vector<RankedText> texts;  ///< At the end: of a round up, where nothing merges.
  std::string text;               ///< At the end: of a round down, or what was merged.

  // On the way.
  bool is_begun = false;
  bool has_come = false;            ///< The text of rank 0.
  Channel::Merge merge;             ///< Empty: texts are put one after the other.
  std::vector<RankedText> arrived;  ///< From children, and this rank's own.
};

/// A waiter for the next text that this rank is told.
struct PendingReceive {
  async::Event done;
  Message message;
};

/// The state of a session on one rank. It exists from the first packet on, if that comes before the rank
/// joins: it passes on texts of rank 0 and failures even then, so that nobody waits for a rank that is late.
/// (Once its transport delivers them, that is: the one of MPI may sleep until the rank joins.)
///
/// Threads: every method may be called from any thread.
class SessionState : public std::enable_shared_from_this<SessionState> {
 public:
  SessionState(Transport& transport, const Tree& tree, const CoordinatorOptions& options,
               std::shared_ptr<LostRanks> lost, std::uint64_t number);

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t size() const noexcept { return tree_.size; }
  [[nodiscard]] const async::Event& failed() const noexcept { return failed_; }
  [[nodiscard]] std::exception_ptr failure() const;

  /// As Session::missing.
  [[nodiscard]] SomeRanks missing() const;

  /// From here on this rank is there, and listens for its neighbours. Its first word is its purpose.
  void join(FailureScope scope, const SessionPurpose& purpose, Timeout join_timeout);
  /// The rounds that were begun here and have not ended.
  [[nodiscard]] std::vector<std::shared_ptr<Round>> open_rounds() const;

  /// Tells the neighbours that this rank says nothing more. Returns whether it had joined, and had not left before.
  bool leave() noexcept;
  /// Returns whether somebody may still ask for what was said here: left by rank 0, but not by all to whom it
  /// speaks. They are given time to notice that the rank which should have passed it on is lost.
  [[nodiscard]] bool is_needed() const noexcept;
  /// Tells the neighbours that this rank will be silent for as long as its program likes; not again when it has sent
  /// nothing since. Returns whether it told them.
  bool rest() noexcept;
  /// A rank has closed its coordinator before it joined: fails it, if this rank has joined, and needs that one.
  void miss(std::size_t rank) noexcept;
  /// Somebody is lost: fails it with `why`, if this rank has joined, and needs all.
  void lose(const std::exception_ptr& why) noexcept;
  /// Fails it with Errc::closed, if it was not left; afterwards the transport is not used any more.
  void close() noexcept;

  void receive(std::size_t from, const DecodedPacket& decoded, const Packet& packet);
  /// The first failure counts; it is passed on to all neighbours but the one that it came from.
  void fail(const std::exception_ptr& why) noexcept { fail(why, rank_, nullptr); }

  void fail_together(const Error& why) noexcept;

  /// Begins a round in which texts go to rank 0. Its `done` waits for the ranks below this one.
  std::shared_ptr<Round> begin_up(const std::string& channel, std::uint32_t number, std::string mine,
                                  Channel::Merge merge);
  /// Begins one in which a text comes from rank 0; `text` counts there.
  std::shared_ptr<Round> begin_down(const std::string& channel, std::uint32_t number, std::string text);
  /// Begins one in which rank 0 has a text for each rank.
  std::shared_ptr<Round> begin_scatter(const std::string& channel, std::uint32_t number,
                                       std::vector<std::string> by_rank);

  /// Tells each of these ranks something, past the tree.
  void send_direct(const std::string& channel, std::span<const std::size_t> ranks, std::string_view text,
                   std::span<const std::byte> data);
  /// Begins to wait for what this rank is told next.
  std::shared_ptr<PendingReceive> receive_direct(const std::string& channel);

 private:
  using Key = std::pair<std::string, std::uint32_t>;

  struct Neighbour {
    std::size_t rank = 0;
    bool has_joined = false;
    bool has_left = false;
    bool is_resting = false;              // Its silence is not counted.
    std::chrono::nanoseconds silence{0};  // While this rank was there to hear it.
    std::chrono::nanoseconds waited{0};   // For it to join.
    SomeRanks missing{};                  // As it has said last: below it, or, if it is above, of all.
  };

  /// Messages that have come in a channel, or the receivers that wait for one: one of the two is empty.
  struct Mailbox {
    std::deque<Message> messages;
    std::deque<std::shared_ptr<PendingReceive>> receivers;
  };

  Round& round_at(const Key& key) CAIRN_REQUIRES(mutex_);
  std::shared_ptr<Round> begin(const Key& key) CAIRN_REQUIRES(mutex_);
  void send(std::size_t to, const Packet& packet) CAIRN_REQUIRES(mutex_);
  void send_down(const Packet& packet) CAIRN_REQUIRES(mutex_);
  void send_scattered(const Key& key, std::vector<RankedText> texts) CAIRN_REQUIRES(mutex_);
  /// A round down: `speak` is rank 0's part of it.
  std::shared_ptr<Round> begin_downward(const Key& key, const std::function<void(Round&)>& speak);
  [[nodiscard]] Packet packet_of(PacketKind kind, const Key& key, std::string_view body) const;
  [[nodiscard]] bool is_missing_from(const Neighbour& neighbour) const CAIRN_REQUIRES(mutex_);
  [[nodiscard]] bool may_be_asked() const noexcept CAIRN_REQUIRES(mutex_);
  [[nodiscard]] bool is_parent(std::size_t neighbour) const noexcept CAIRN_REQUIRES(mutex_);
  [[nodiscard]] SomeRanks missing_below() const CAIRN_REQUIRES(mutex_);
  [[nodiscard]] SomeRanks missing_of_all() const CAIRN_REQUIRES(mutex_);
  /// Returns whether a round needs what comes from the rank above.
  [[nodiscard]] bool waits_above() const CAIRN_REQUIRES(mutex_);
  [[nodiscard]] Packet alive_packet(const SomeRanks& missing) const;
  [[nodiscard]] SomeRanks find_late() const CAIRN_REQUIRES(mutex_);
  void count_silence(std::chrono::nanoseconds elapsed) CAIRN_REQUIRES(mutex_);
  [[nodiscard]] const Neighbour* find_lost() CAIRN_REQUIRES(mutex_);
  [[nodiscard]] bool is_needed_here(const Neighbour& neighbour) const CAIRN_REQUIRES(mutex_);
  /// FailureScope::root: when the rank above is lost or has left, listens to rank 0 itself from here on. Returns
  /// whether it does.
  bool turn_to_root(Neighbour& gone) CAIRN_REQUIRES(mutex_);
  void send_signs_of_life() CAIRN_REQUIRES(mutex_);
  [[nodiscard]] bool is_bound_to(std::size_t neighbour) const;

  void fail(const std::exception_ptr& why, std::size_t from, const Packet& packet) noexcept;
  void take_up(std::size_t from, const Key& key, std::string_view body);
  /// Goes on with a round up whose texts are all there.
  void pass_up(const Key& key, const std::shared_ptr<Round>& round);
  void take_down(const Key& key, const DecodedPacket& decoded, const Packet& packet);
  void take_ask(std::size_t from);
  void take_question(std::size_t from);
  void note_missing(std::size_t from, std::string_view body);
  /// Fails it on all ranks where another one has said another kind of purpose.
  void note_purpose(std::size_t rank, const SessionPurpose& purpose);
  void take_direct(std::size_t from, const DecodedPacket& decoded, const Packet& packet);
  /// Fails it where a round needs the text of a neighbour that has left.
  void fail_if_somebody_left();
  void tick();
  void tick_later();

  const std::uint64_t number_;
  const Tree tree_;
  const CoordinatorOptions options_;
  const std::shared_ptr<LostRanks> lost_;
  const std::size_t rank_;
  const std::vector<std::size_t> children_;
  const async::Event failed_;

  mutable Mutex mutex_;
  Transport* transport_ CAIRN_GUARDED_BY(mutex_);  // Null once closed.
  bool has_joined_ CAIRN_GUARDED_BY(mutex_) = false;
  std::chrono::nanoseconds join_timeout_ CAIRN_GUARDED_BY(mutex_){0};  // Zero: for ever.
  // The first that was said here, by which rank.
  std::optional<std::pair<std::size_t, SessionPurpose>> purpose_ CAIRN_GUARDED_BY(mutex_);
  bool has_left_ CAIRN_GUARDED_BY(mutex_) = false;
  FailureScope failure_scope_ CAIRN_GUARDED_BY(mutex_) =
      FailureScope::job;  // Until it has joined it only passes on.
  std::size_t parent_ CAIRN_GUARDED_BY(mutex_) = 0;
  bool is_orphan_ CAIRN_GUARDED_BY(mutex_) = false;   // It has turned to rank 0.
  bool has_spoken_ CAIRN_GUARDED_BY(mutex_) = false;  // Since it said that it rests.
  std::vector<Packet> words_
      CAIRN_GUARDED_BY(mutex_);  // At rank 0, where others may turn to it: what it has said to all.
  std::exception_ptr failure_ CAIRN_GUARDED_BY(mutex_);
  std::vector<Neighbour> neighbours_ CAIRN_GUARDED_BY(mutex_);
  std::map<Key, std::shared_ptr<Round>> rounds_ CAIRN_GUARDED_BY(mutex_);
  std::map<std::string, Mailbox, std::less<>> mailboxes_ CAIRN_GUARDED_BY(mutex_);
  Transport::Time last_tick_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::coord
