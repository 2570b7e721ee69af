// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/coord/coordinator.hpp"
#include "cairn/training/save_policy.hpp"
#include "cairn/training/step_options.hpp"

#include "async/internal/event.hpp"
#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"
#include "training/preempted_step.hpp"

namespace cairn::training {

/// Makes the ranks of a job decide alike which steps to save, though their clocks differ and signals reach
/// them at different steps.
///
/// - A policy that asks for no time is asked on each rank. It sees nothing that ranks may see differently.
/// - One that does is asked on rank 0 alone, for the steps ahead, which come as fast as those before: so rank 0 names
///   the next step to save at, or to look again. It does so with each save, along with the agreement that saves make
///   anyway, and with a message of its own at steps to look at: the first ones, as long as nobody knows how long a
///   step takes, and few later on.
/// - A rank that was sent a signal has all save at a step that none has come to; see PreemptedStep.
///
/// A step that was named is the first one that is asked about and is not below it.
///
/// Saves are counted, on each rank alike: each step that all ranks are to save is one, however it ends here and
/// there. To each belongs one word of rank 0: what it named when it began that save or, where that failed before the
/// others were told, to look at the next step. A rank whose save has failed before it heard the word asks for it,
/// outside of sessions, and rank 0 answers while it computes. Whatever fails on whichever rank, all of them go by the
/// same words.
/// Invariant: rank 0 settles each word once; only one that is settled is told, and counts on rank 0 itself.
/// Threads: `decide`, `open_save` and `begin_save` by one thread at a time, on each rank for the same steps; the rest
///          from any.
class RankDecisions {
 public:
  /// All but the last two are the caller's and outlive this.
  RankDecisions(const SavePolicy& policy, const PreemptionGuard* preemption, coord::Coordinator& coordinator,
                const Clock& clock, std::uint64_t margin, const std::filesystem::path& root);

  /// Returns whether to save `here.step`: the same on all ranks. May talk to them, and wait for their
  /// answers. `is_forced`: it is saved whatever the policy says, which is not asked then.
  ///
  /// Errors: what the policy throws; Errc::peer_failed.
  [[nodiscard]] bool decide(const SaveMoment& here, bool is_forced);

  /// Opens a save that all ranks are to make, however it ends. Returns the number of that save.
  [[nodiscard]] std::uint64_t open_save(std::uint64_t step);
  /// Begins it on this rank, and returns what rank 0 tells the others with it.
  [[nodiscard]] std::string begin_save(std::uint64_t number, const SaveMoment& here);
  /// Takes the word that rank 0 has sent with a save; rank 0 takes its own before it sends it.
  ///
  /// Errors: Errc::closed on rank 0: the save has failed already, and the others are told something else.
  void hear(std::uint64_t number, std::string_view word);
  /// It has ended here, in one way or another; nothing: it has failed, perhaps before it began. Of one that is
  /// committed the time on rank 0 counts. May be called again.
  void end_save(std::uint64_t number, std::uint64_t step,
                std::optional<std::chrono::nanoseconds> duration) noexcept;

  /// All ranks go back to a step, and none saves meanwhile: what was named of the steps given up does not count any
  /// more.
  void go_back(std::uint64_t step);

  /// From the step on that was agreed on because of a signal.
  [[nodiscard]] bool is_preempted() const { return preempted_.has_come(); }

 private:
  /// The step that rank 0 has named last.
  struct Named {
    bool is_save = false;  ///< Else to look again.
    std::uint64_t step = 0;
  };

  /// The word that rank 0 sends with a save.
  struct Word {
    std::uint64_t step = 0;  ///< That is saved.
    Named next;
    bool is_settled = false;
  };

  static std::string encode(const Named& named);
  static Named decode(std::string_view text);
  /// The policy is to be asked at that step, and not before.
  static Named look_at(std::uint64_t step) { return {false, step}; }

  [[nodiscard]] bool decide_by_time(const SaveMoment& here);
  /// Waits for the word of the last save, and returns it.
  ///
  /// Errors: Errc::peer_failed.
  std::optional<Named> wait_for_word();
  /// Returns whether it can be waited for without a question to rank 0.
  [[nodiscard]] bool is_word_coming() const CAIRN_REQUIRES(mutex_);
  void look(const SaveMoment& here);
  void measure_steps(std::uint64_t step);
  /// The next step to save at from `first` on, as the policy will see it; `moment` is that of now, at `step`. What
  /// the policy throws of a later step it will throw there.
  [[nodiscard]] Named find_next(const SaveMoment& moment, std::uint64_t first) const;
  [[nodiscard]] std::string settle(std::uint64_t number, std::optional<std::chrono::nanoseconds> duration);
  void wake_waiter() CAIRN_REQUIRES(mutex_);
  void hear_question(std::string_view text);
  void hear_answer(std::string_view text);

  const SavePolicy& policy_;
  coord::Coordinator& coordinator_;
  const Clock& clock_;
  const std::string topic_;
  const std::string words_topic_;
  PreemptedStep preempted_;

  mutable Mutex mutex_;
  async::Event changed_ CAIRN_GUARDED_BY(mutex_);      // Happens with the next change of what follows.
  std::uint64_t number_ CAIRN_GUARDED_BY(mutex_) = 0;  // Of the last save.
  std::uint64_t step_ CAIRN_GUARDED_BY(mutex_) = 0;    // Of that, too.
  bool is_running_ CAIRN_GUARDED_BY(mutex_) = false;   // Likewise: it may still bring its word.
  std::optional<Named> next_ CAIRN_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point answered_ CAIRN_GUARDED_BY(mutex_);  // When rank 0 was heard last.
  // Rank 0 keeps its words by the number of the save, until no rank can ask for them any more.
  std::map<std::uint64_t, Word> words_ CAIRN_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point said_ CAIRN_GUARDED_BY(mutex_);  // When it has answered last.

  // Used by rank 0, on the thread that decides.
  std::optional<std::pair<std::uint64_t, std::chrono::steady_clock::time_point>> mark_;
  std::optional<std::chrono::nanoseconds> step_time_;
  std::optional<std::chrono::nanoseconds> save_time_ CAIRN_GUARDED_BY(mutex_);
  std::uint64_t looks_ = 0;  // Since the last save.

  std::shared_ptr<void> listening_;  // Goes first.
};

}  // namespace cairn::training
