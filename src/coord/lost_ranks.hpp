// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/transport.hpp"

#include "base/internal/mutex.hpp"
#include "coord/packet.hpp"
#include "coord/tree.hpp"

namespace cairn::coord {

/// Remembers which ranks are lost, as far as this rank has heard, for as long as its coordinator lives.
///
/// 1. A rank that finds another one lost tells all (`lost`), around the lost one where that is between them in the
///    tree, and the lost one itself.
/// 2. A rank that hears of itself that it is lost was stopped, or cut off, and is there again: it answers the finder
///    (`found`).
/// 3. The finder tells all others so.
///
/// Each finding has a number, and a rank is lost while one is unanswered. An answer is sent after the finding has
/// come, so that no packet which was on its way before passes for a sign of life.
/// Threads: every method may be called from any thread.
class LostRanks {
 public:
  LostRanks(Transport& transport, const Tree& tree, const CoordinatorOptions& options)
      : rank_(transport.rank()), tree_(tree), options_(options), transport_(&transport) {}

  /// This rank has not heard another one for too long, which it needs for the session of that number.
  void find(std::size_t lost, std::uint64_t session);
  /// This rank asks another one, for which it waits outside of sessions, and has asked it before, perhaps: where it has
  /// had no answer for too long it finds it lost, for sessions from that number on. Returns whether no answer is due.
  bool ask(std::size_t rank, std::uint64_t session);
  void take_answer(std::size_t from);
  void take_lost(std::size_t from, const DecodedPacket& decoded, const Packet& packet);
  void take_found(std::size_t from, const DecodedPacket& decoded, const Packet& packet);
  /// Nothing is sent any more.
  void close() noexcept;

  /// Returns the error for whoever begins something with all ranks: Errc::peer_lost. Null when nobody is
  /// lost.
  [[nodiscard]] std::exception_ptr failure() const;

 private:
  struct Finding {
    std::size_t lost = 0;
    std::size_t finder = 0;
    std::uint32_t number = 0;  ///< Of the finder.
  };
  using Key = std::pair<std::size_t, std::uint32_t>;  // Finder and number.
  /// A question that was not answered yet.
  struct Question {
    Transport::Time last;                 // When it was asked last.
    std::chrono::nanoseconds silence{0};  // While this rank was there to hear an answer.
  };
  struct Loss {
    Transport::Time since;
    std::set<Key> findings{};  // Those that are unanswered.
  };

  [[nodiscard]] static Packet encode_finding(PacketKind kind, std::uint64_t session, const Finding& finding);
  [[nodiscard]] static Finding decode_finding(const DecodedPacket& decoded);
  /// Returns whether it is new.
  bool note(const Finding& finding) CAIRN_REQUIRES(mutex_);
  void pass_on(const Packet& packet, std::size_t from) CAIRN_REQUIRES(mutex_);
  /// The neighbours in the tree; in place of one that is lost, its own.
  [[nodiscard]] std::set<std::size_t> neighbours() const CAIRN_REQUIRES(mutex_);

  const std::size_t rank_;
  const Tree tree_;
  const CoordinatorOptions options_;
  mutable Mutex mutex_;
  Transport* transport_ CAIRN_GUARDED_BY(mutex_);  // Null once closed.
  std::uint32_t found_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::map<std::size_t, Loss> losses_ CAIRN_GUARDED_BY(mutex_);
  std::map<std::size_t, Question> asked_ CAIRN_GUARDED_BY(mutex_);
  // By the lost rank and the finder: the number of the last finding that was answered. That one, and earlier ones,
  // are old.
  std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> answered_ CAIRN_GUARDED_BY(mutex_);
};

/// The error for whoever needs a rank that has closed its coordinator.
[[nodiscard]] Error closed_by(std::size_t rank);

/// A rank that was suspended, or whose transport was lent no thread, has received nothing meanwhile: others were not
/// silent then. It counts so much of the time since it looked last.
[[nodiscard]] std::chrono::nanoseconds silence_of(std::chrono::nanoseconds elapsed,
                                                  const CoordinatorOptions& options);

/// Tells people what to do about a rank that is lost.
inline constexpr std::string_view kEndAndStartAgain = "end, and start again with the ranks that there are";

}  // namespace cairn::coord
