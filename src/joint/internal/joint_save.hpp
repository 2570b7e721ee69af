// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/coord/coordinator.hpp"

#include "joint/internal/failure_listener.hpp"
#include "joint/internal/rank_values.hpp"
#include "joint/internal/save_protocol.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::joint {

/// The end of a save of several ranks, as rank 0 tells it to the others.
struct Verdict {
  using Kind = Ending;

  Verdict() = default;
  Verdict(Kind what, std::string why) : kind(what), words(std::move(why)) {}

  Kind kind = Kind::aborted;
  bool is_superseded = false;  ///< Aborted, because rank 0 yielded to a later save.
  bool is_peer_lost = false;   ///< Aborted, because a rank is lost.
  std::uint64_t files = 0;     ///< Of a committed one: of all ranks.
  std::uint64_t bytes = 0;
  std::string words;  ///< Why it is not committed, with the rank.
};

/// The protocol of one save of all ranks of a job, on this rank. It has two sessions: one that any rank may
/// fail, and one in which rank 0 tells the verdict, also to ranks that have failed, or have heard of a
/// failure.
///
///   claims    every rank says what it was called with; all must say the same               up and down
///   options   ranks whose options are not the same say them in words                       up
///   directory rank 0 has made it                                                           down
///   votes     each rank has made its files durable: their paths, sizes and roots           up
///   verdict   what has become of it                                                        down
/// Threads: `fail`, `send_verdict` and `leave` may be called from any thread; the rest by the coroutines of one save.
class JointSave {
 public:
  /// Joins the others for the next save of this rank, into `path`, for at most `join_timeout`; see Coordinator::join.
  /// Null where there are none: then a save says nothing to anybody.
  static std::unique_ptr<JointSave> join(coord::Coordinator& coordinator, std::string path = {},
                                         Timeout join_timeout = {});

  explicit JointSave(coord::Coordinator& coordinator, std::string path = {}, Timeout join_timeout = {});
  /// Leaves; a save that nobody has said anything about was dropped.
  ~JointSave();
  JointSave(const JointSave&) = delete;
  JointSave& operator=(const JointSave&) = delete;

  [[nodiscard]] bool is_primary() const noexcept { return rank_ == 0; }
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  /// The same on all ranks, which need not ask for it.
  [[nodiscard]] const store::Uuid& uuid() const noexcept { return uuid_; }

  /// Opens a channel for handlers to talk to each other. Every rank opens it, once.
  [[nodiscard]] coord::Channel channel(std::string_view name) const { return work_->channel(name); }

  /// Tells all that this rank has failed; of rank 0 that is the verdict, too.
  void fail(const std::exception_ptr& why) noexcept;
  /// With what all steps fail; null as long as nobody has failed.
  [[nodiscard]] std::exception_ptr failure() const { return work_->failure(); }
  /// Returns whether this rank has failed by itself: what its steps then say is its own failure.
  [[nodiscard]] bool has_failed() const noexcept { return listener_.has_failed_itself(); }
  /// The same as `fail` where no rank has failed: all end with what `why` says.
  void call_off(const Error& why) noexcept;
  /// Calls `work` when another rank has failed first; see Session::on_failure. Called once.
  void on_failure(FailureListener::Work work);
  /// Returns when that work does not run, and will not.
  void stop_listening() noexcept { listener_.stop(); }

  /// The ranks for which this one waits, as far as it knows; see Session::missing.
  [[nodiscard]] SomeRanks missing() const;

  /// Says values as they are, and of options a hash: they become words where ranks differ in them.
  ///
  /// Errors: Errc::invalid_argument on every rank: names a value or an option, the ranks, and what they say.
  [[nodiscard]] Awaitable<> agree(RankValues rank_values, const RankValues& options);

  void send_created();                          ///< Rank 0.
  [[nodiscard]] Awaitable<> receive_created();  ///< The others.

  void vote(std::span<const store::FileEntry> files);  ///< All but rank 0.
  /// Rank 0: the files of all others, when each has voted.
  [[nodiscard]] Awaitable<std::vector<store::FileEntry>> collect_votes();

  /// Rank 0; the first one counts.
  void send_verdict(const Verdict& verdict) noexcept;
  /// The others.
  ///
  /// Errors: Errc::peer_failed or Errc::peer_lost when rank 0 cannot be heard any more.
  [[nodiscard]] Awaitable<Verdict> receive_verdict();

  /// Nothing more is said here; what others say is still passed on to those who wait for it.
  void leave() noexcept;

 private:
  JointSave(const coord::Coordinator& coordinator, std::vector<coord::Session> sessions);

  const std::uint32_t rank_;
  const std::shared_ptr<coord::Session> work_;
  coord::Session last_word_;
  const store::Uuid uuid_;
  std::optional<Awaitable<std::string>> created_;  // Begun at once: what is said early is heard.
  std::optional<Awaitable<std::string>> verdict_;
  FailureListener listener_;
  std::atomic<bool> has_voted_{false};
  std::atomic<bool> is_verdict_sent_{false};
  std::atomic<bool> has_left_{false};
};

}  // namespace cairn::joint
