// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/coord/coordinator.hpp"

#include "joint/internal/failure_listener.hpp"
#include "joint/internal/rank_values.hpp"

namespace cairn::joint {

/// The protocol of one load that all ranks of a job make together, on this rank:
///
///   claims      every rank says what it was called with; all must say the same          up
///   checkpoint  which one it is, and its metadata, which rank 0 has read                down
///   handlers    what they read; see SharedReads
///   end         every rank has what it wants                                            up and down
/// Any rank may fail it at any time; then it fails on all.
/// Threads: `fail` may be called from any thread; the rest by the coroutines of one load.
class JointLoad {
 public:
  /// Joins the others for the next load of this rank, of `path`, for at most `join_timeout`; see Coordinator::join.
  /// Null where there are none.
  static std::unique_ptr<JointLoad> join(coord::Coordinator& coordinator, std::string path = {},
                                         Timeout join_timeout = {});

  explicit JointLoad(coord::Coordinator& coordinator, std::string path = {}, Timeout join_timeout = {});
  /// Leaves; a load that has not ended was dropped.
  ~JointLoad();
  JointLoad(const JointLoad&) = delete;
  JointLoad& operator=(const JointLoad&) = delete;

  [[nodiscard]] bool is_primary() const noexcept { return rank_ == 0; }

  /// Opens a channel for handlers to talk to each other. Every rank opens it, once.
  [[nodiscard]] coord::Channel channel(std::string_view name) const { return work_.channel(name); }

  /// The ranks for which this one waits, as far as it knows; see Session::missing.
  [[nodiscard]] SomeRanks missing() const { return work_.missing(); }

  /// Errors: Errc::invalid_argument on every rank: names a value, two ranks, and what they say.
  [[nodiscard]] Awaitable<> agree(RankValues rank_values);
  /// Brings the text that rank 0 has about the checkpoint to all; `text` counts there.
  [[nodiscard]] Awaitable<std::string> share(std::string text) const;
  /// Returns when all ranks have called it.
  [[nodiscard]] Awaitable<> end();

  /// Tells all that this rank has failed; where the checkpoint is damaged all fail alike.
  void fail(const std::exception_ptr& why) noexcept;
  /// Fails the load on all ranks with this error, whose code is an Errc; the others are told who has met it.
  void fail_together(const Error& why) noexcept;
  /// The failure that all ranks hear of, if there is one yet.
  [[nodiscard]] std::exception_ptr failure() const { return work_.failure(); }
  /// Calls `work` when another rank has failed first; see FailureListener. Called once.
  void on_failure(FailureListener::Work work) { listener_.listen(work_, std::move(work)); }
  void stop_listening() noexcept { listener_.stop(); }

 private:
  const std::uint32_t rank_;
  coord::Session work_;
  FailureListener listener_;
  std::atomic<bool> has_ended_{false};
};

}  // namespace cairn::joint
