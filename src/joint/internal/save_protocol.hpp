// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "joint/internal/commit_state.hpp"

namespace cairn::joint {

/// How a save has ended.
enum class Ending : std::uint8_t { committed, aborted, unknown };

/// The order of a save on one rank, and what may still happen to it. Votes, verdicts, failures, stops and answers of
/// the disk go in; what to do next comes out. Who drives it has threads, a clock, messages and files; it has none.
///
///   rank 0:      write ─▶ collect_votes ─▶ publish ─▶ end
///   the others:  write ─▶ prepare ─▶ hand_over ─▶ vote ─▶ hear_verdict ──committed──▶ close ─▶ end
///                                                            │ silence      ▲
///                                                            └▶ ask_disk ───┘
///   any:         failed ─▶ tell_failure ─▶ abandon ─▶ end
///
/// A process that saves alone is rank 0.
/// Invariants: a rank that was stopped before it has handed over never votes, so rank 0 never publishes; one that has
/// handed over says what rank 0 says or, where rank 0 is silent, what the disk says.
/// Threads: `commit` from any thread; the rest by one at a time.
class SaveProtocol {
 public:
  enum class Act : std::uint8_t {
    write,  ///< Agrees on what is saved, makes the directory or joins it, and writes the files of this rank.
    collect_votes,  ///< Waits until the files of all others are durable.
    publish,        ///< Makes the checkpoint visible and durable, and tells the others; closes it.
    prepare,        ///< Makes the files of this rank durable.
    hand_over,      ///< Leaves them to rank 0: nothing of them is removed here any more.
    vote,           ///< Tells rank 0 so. Where that cannot be done: `silent`.
    hear_verdict,   ///< Waits for what rank 0 says: `heard`, or `silent`.
    ask_disk,       ///< Keeps rank 0 from publishing, and looks whether it has: `heard`.
    take_back,      ///< It is aborted: the files are this rank's again.
    fail,           ///< Ends with what the verdict says; without one, because this rank was stopped.
    close,          ///< Closes what is committed.
    tell_failure,   ///< Tells the others, and hears from them what came first.
    abandon,        ///< Removes what is not committed.
    end
  };

  explicit SaveProtocol(bool is_primary) noexcept : is_primary_(is_primary) {}

  /// Returns what is to be done now.
  [[nodiscard]] Act act() const noexcept { return act_; }
  /// This was done. Where what it has brought was told already, nothing more is to be said.
  void did(Act act) noexcept;
  /// There is nothing to save.
  void end() noexcept { act_ = Act::end; }
  /// It was not done. What was being committed stays so.
  void failed() noexcept;
  /// `hear_verdict` or `ask_disk` has brought this.
  void heard(Ending ending) noexcept;
  /// Rank 0 cannot be heard any more.
  void silent() noexcept;

  [[nodiscard]] bool is_primary() const noexcept { return is_primary_; }
  [[nodiscard]] CommitState& commit() noexcept { return commit_; }
  [[nodiscard]] const CommitState& commit() const noexcept { return commit_; }

 private:
  [[nodiscard]] Act after(Act done) noexcept;

  const bool is_primary_;
  CommitState commit_;
  Act act_ = Act::write;
};

}  // namespace cairn::joint
