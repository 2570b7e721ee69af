// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/some_ranks.hpp"

namespace cairn::coord {

class SessionState;
class Sessions;

/// A text that one rank has sent to another.
struct Message {
  std::size_t from = 0;   ///< Which rank.
  std::string_view text;  ///< Lies in `owner`.
  std::shared_ptr<const std::string> owner{};
};

/// One channel of a session: a sequence of rounds that every rank takes in the same order. Channels do not wait for
/// each other.
///
/// A round begins when its method is called, whether its answer is awaited or not; calls of one channel are made by
/// one thread at a time. Texts are any bytes. Each round goes along a tree of ranks, and costs a rank a packet for
/// each neighbour.
/// Errors: that of the session, as soon as it has failed on any rank.
class Channel {
 public:
  /// Joins the texts of neighbours in the tree; the first is of the lowest rank. Called on the transport's thread, or
  /// on the caller's; what it throws fails the session.
  using Merge = std::function<std::string(std::vector<std::string> texts)>;

  /// The rank of this process.
  [[nodiscard]] std::size_t rank() const noexcept;

  /// The texts of all ranks, in their order, at rank 0; nothing elsewhere, where it waits for the ranks below in the
  /// tree.
  [[nodiscard]] Awaitable<std::vector<std::string>> gather(std::string mine);
  /// As above, but the texts are merged on their way: for what is too much for one rank.
  [[nodiscard]] Awaitable<std::string> reduce(std::string mine, Merge merge);
  /// The text of rank 0; `text` counts there only.
  [[nodiscard]] Awaitable<std::string> broadcast(std::string text);
  /// The text that rank 0 has for this rank; `by_rank` counts there only.
  ///
  /// Errors: Errc::invalid_argument at rank 0 when there is not one text for each rank.
  [[nodiscard]] Awaitable<std::string> scatter(std::vector<std::string> by_rank);
  /// Returns when all ranks have the same text.
  ///
  /// Errors: Errc::invalid_argument on every rank when they have not: names `what`, which ranks have which text, and
  /// the texts. The session has failed then.
  [[nodiscard]] Awaitable<> agree(std::string what, std::string mine);

  /// Fails the session on all ranks with this very error, whose code is an Errc, and throws it: for what no rank
  /// alone has done wrong. Where it has failed before, throws that.
  [[noreturn]] void refuse_together(const Error& why) const;

  /// Sends something to other ranks directly, outside the tree and the rounds: one packet for each, `text` followed
  /// by `data`. Returns at once. Each receives what this rank sends in the order in which it was sent.
  ///
  /// Threads: this and `receive` may be called from any thread, at any time.
  void send(std::span<const std::size_t> ranks, std::string_view text,
            std::span<const std::byte> data = {}) const;
  /// The next text that any rank sends to this one.
  ///
  /// Cancel: a text that has come for it is lost with it.
  [[nodiscard]] Awaitable<Message> receive() const;

 private:
  friend class Session;
  Channel(std::shared_ptr<SessionState> state, std::string name);

  std::shared_ptr<SessionState> state_;
  std::string name_;
  std::uint32_t next_round_ = 0;
};

/// Everything that all ranks say to each other about one thing that they do together. A session is
/// independent of all others.
///
/// From the moment a rank has joined it tells its neighbours in the tree that it is there, until it leaves. A rank
/// that has joined and is silent for longer than CoordinatorOptions::lost_after is lost, and the session fails
/// on all others with Errc::peer_lost. So do those that begin later, at once, until the rank is heard again. A
/// moved-from one may only be destroyed. Destroying one that was not left fails it with Errc::closed.
/// Threads: every method may be called from any thread.
class Session {
 public:
  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) = delete;
  ~Session();

  /// The same on every rank, and of no other session of this job.
  [[nodiscard]] std::uint64_t number() const noexcept;

  /// Begins a channel. Every rank begins it with the same name, and once.
  [[nodiscard]] Channel channel(std::string_view name) const;

  /// Makes every round fail, here with `why`, on the other ranks with Errc::peer_failed, this rank and what it says.
  /// The first failure that a rank hears of counts.
  void fail(const std::exception_ptr& why) const noexcept;
  /// The same, but on all ranks with this very error, whose code is an Errc: for what no rank alone has done wrong.
  void fail_together(const Error& why) const noexcept;
  /// Completes by throwing what `fail` was given anywhere: for work that stops then. Does not complete before that.
  [[nodiscard]] Awaitable<> failed() const;
  /// The failure, if there is one yet.
  [[nodiscard]] std::exception_ptr failure() const;

  /// Calls `work` with the failure as soon as there is one: at once, when there is already. On the thread that has
  /// found it; must neither block nor throw.
  void on_failure(std::function<void(const std::exception_ptr& why)> work) const;

  /// The other ranks for which rounds wait that have begun: they have not joined, or have not said their part. As far
  /// as this rank knows: neighbours in the tree tell each other with their signs of life.
  [[nodiscard]] SomeRanks missing() const;

  /// Nothing more will be said or heard: neighbours do not listen for signs of life any more.
  void leave() noexcept;
  /// Leaves as soon as every round that was begun here has ended: until then others may need this rank, to pass on
  /// what they say.
  void leave_later() noexcept;

 private:
  friend class Coordinator;
  Session(std::shared_ptr<SessionState> state, std::weak_ptr<Sessions> sessions);

  std::shared_ptr<SessionState> state_;
  std::weak_ptr<Sessions> sessions_;
  bool leaves_later_ = false;
};

}  // namespace cairn::coord
