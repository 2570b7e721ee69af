// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/base/timeout.hpp"
#include "cairn/coord/session.hpp"
#include "cairn/coord/transport.hpp"

namespace cairn::coord {

class BorrowedCallerThread;
class Notices;

/// Says whose loss or failure ends a session.
enum class FailureScope : std::uint8_t {
  job,   ///< Any rank's.
  root,  ///< Only that of rank 0 or a rank between: used where rank 0 sends the verdict on a failure.
};

struct CoordinatorOptions {
  CoordinatorOptions() = default;

  /// How long a rank that takes part may be silent before it counts as lost. Its transport speaks for it, however
  /// slow its disk or its handlers are. Where the transport has no thread (MPI_THREAD_FUNNELED), silence does not
  /// count while the program or its handlers have theirs: only deadlines tell of a rank that dies there. A rank that
  /// has not come yet is asked each `heartbeat`, and is lost when it does not answer for as long; only where its
  /// transport has a thread (Transport::has_thread).
  Timeout lost_after = std::chrono::seconds(30);
  /// How often each rank that takes part says that it is there. Costs a packet for each neighbour in the tree.
  std::chrono::nanoseconds heartbeat = std::chrono::seconds(1);
  /// How long a rank that is not lost may come later than its neighbours. Zero: no limit; save deadlines still apply.
  Timeout join_timeout;
  /// Neighbours below a rank in the tree along which texts go.
  std::size_t fan_out = 16;
};

/// Says what a rank does in a session, so that ranks which do different things there are told so, and nobody waits for
/// what another one never says.
struct SessionPurpose {
  SessionPurpose() = default;
  SessionPurpose(std::string does, std::string of) : kind(std::move(does)), what(std::move(of)) {}

  std::string kind;  ///< "saves", "rewinds to"; the same on all ranks, or the session fails on all of them.
  std::string what;  ///< "run/5", "step 4"; for people.
};

/// Receives a notice: which rank it is from, and what it says.
using NoticeHandler = std::function<void(std::size_t from, std::string_view text)>;

/// The processes of one job, which save and load together.
///
/// Threads: every method may be called from any thread.
class Coordinator {
 public:
  /// Errors: Errc::invalid_argument for a job of no ranks, a rank beyond it, or options that make no sense.
  explicit Coordinator(std::unique_ptr<Transport> transport, CoordinatorOptions options = {});
  /// Ends the sessions that are left with Errc::closed here, and tells all ranks: what they join later fails at once
  /// with Errc::peer_failed, and names this one. MPI_Finalize does the same.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  [[nodiscard]] std::size_t rank() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;
  /// The number of this rank's machine, which no other machine of the job has.
  [[nodiscard]] std::uint32_t host() const noexcept;
  /// The number of each rank's machine, by rank.
  [[nodiscard]] std::span<const std::uint32_t> hosts() const noexcept;
  /// How many ranks share this one's machine, itself included.
  [[nodiscard]] std::size_t ranks_on_host() const noexcept;

  /// As Transport::job.
  [[nodiscard]] Hash128 job() const noexcept;

  /// As CoordinatorOptions::lost_after.
  [[nodiscard]] Timeout lost_after() const noexcept { return lost_after_; }

  /// Joins the next session: the n-th call on one rank meets the n-th on every other. Ranks that join it for another
  /// kind of thing fail it on all with Errc::invalid_argument: it names who does what, and the next calls meet again.
  /// `join_timeout`: as CoordinatorOptions has it, for this session; zero: as there.
  [[nodiscard]] Session join(SessionPurpose purpose = {}, Timeout join_timeout = {});
  /// Joins several at once, two at most, as one call: no other thread's comes between. Ranks of the same purpose join
  /// them with the same scopes.
  [[nodiscard]] std::vector<Session> join_several(const std::vector<FailureScope>& scopes,
                                                  SessionPurpose purpose = {}, Timeout join_timeout = {});

  /// Returns the error that whatever all ranks begin together fails with, because one of them is lost: Errc::peer_lost.
  /// Null where none is, as far as this rank has heard.
  [[nodiscard]] std::exception_ptr loss() const;
  /// Asks another rank whether it is there, outside of sessions. Whoever waits for that rank calls this again and
  /// again: one that gives no answer for `lost_after` is lost from then on. Returns false while an answer is due; true
  /// also of a rank whose transport has no thread to answer (Transport::has_thread).
  ///
  /// Errors: Errc::peer_failed when it has closed its coordinator.
  bool ask(std::size_t rank);

  /// Tells something outside of sessions: rank 0 tells all others, any other rank tells rank 0. Returns at once; it
  /// may be lost, as ranks may be, and a rank that does not listen does not hear it.
  void notify(std::string_view topic, std::string_view text);
  /// Calls `handler` with what others notify about a topic, until what is returned goes; then it does not run any
  /// more. On the transport's thread: it must neither block nor throw, nor let go of what is returned.
  [[nodiscard]] std::shared_ptr<void> listen(std::string topic, NoticeHandler handler);

  /// Lends the coordinator the calling thread; see Transport::progress. Programs call it now and then while they wait
  /// for nothing of this library but a save is under way: the other ranks wait for what this one says in it. Between
  /// two calls they do not count this rank's silence, so nobody but deadlines tells of one that dies there.
  bool progress();

 private:
  friend class BorrowedCallerThread;

  /// As `progress`, of a thread that comes again at once.
  bool turn();

  const Timeout lost_after_;
  std::shared_ptr<Sessions> sessions_;
  std::shared_ptr<Notices> notices_;
  std::unique_ptr<Transport> transport_;  // Goes first: then nobody calls the sessions any more.
};

/// The coordinator of a program of one process. Lives as long as the process.
[[nodiscard]] const std::shared_ptr<Coordinator>& single_process();

}  // namespace cairn::coord
