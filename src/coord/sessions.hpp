// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <vector>

#include "base/internal/mutex.hpp"
#include "coord/lost_ranks.hpp"
#include "coord/packet.hpp"
#include "coord/session_state.hpp"

namespace cairn::coord {

/// All sessions of one rank that have begun anywhere and were not left here.
///
/// Threads: every method may be called from any thread.
class Sessions {
 public:
  Sessions(Transport& transport, const CoordinatorOptions& options);

  /// The next ones, one for each scope. The first word in the first of them is the purpose.
  [[nodiscard]] std::vector<std::shared_ptr<SessionState>> join(const std::vector<FailureScope>& scopes,
                                                                const SessionPurpose& purpose,
                                                                Timeout join_timeout);
  /// Takes a packet. It drops those of sessions that were left here: late packets of an old one never reach a
  /// new one.
  void receive(std::size_t from, const Packet& packet) noexcept;
  /// Drops a session that was left: now, or, while a rank may still ask for what was said in it, when this rank joins
  /// later ones.
  void forget(std::uint64_t number) noexcept;
  /// As Coordinator has them.
  [[nodiscard]] std::exception_ptr loss() const { return lost_->failure(); }
  bool ask(std::size_t rank);
  /// As SessionState::rest, in all that this rank has joined.
  bool rest() noexcept;
  /// Fails what is left, and tells all ranks that this one joins nothing more: what they join later fails at once.
  void close() noexcept;

 private:
  /// Null for one that was left.
  [[nodiscard]] std::shared_ptr<SessionState> find(std::uint64_t number);
  [[nodiscard]] std::vector<std::shared_ptr<SessionState>> all() const;
  /// Sends it to the neighbours in the tree but one, who has sent it.
  void pass_on(const Packet& packet, std::size_t from) const;
  /// Tells one rank something that has no text: that a session of which it asks is forgotten here.
  void say(std::size_t to, PacketKind kind, std::uint64_t number) const;
  void take_closed(std::size_t from, const DecodedPacket& decoded, const Packet& packet);
  /// Fails a session that a rank which is gone will never join.
  void miss_those_gone(SessionState& session) const;
  void take_lost(std::size_t from, const DecodedPacket& decoded, const Packet& packet);

  Transport* const transport_;  // Until `close`.
  const CoordinatorOptions options_;
  const std::size_t rank_;
  const Tree tree_;
  const std::shared_ptr<LostRanks> lost_;
  mutable Mutex mutex_;
  bool is_closed_ CAIRN_GUARDED_BY(mutex_) = false;
  std::uint64_t next_ CAIRN_GUARDED_BY(mutex_) = 0;  // Number of the session that this rank joins next.
  std::map<std::uint64_t, std::shared_ptr<SessionState>> sessions_ CAIRN_GUARDED_BY(mutex_);
  // By rank: the first session that it does not join.
  std::map<std::size_t, std::uint64_t> gone_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::coord
