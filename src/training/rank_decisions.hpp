// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/coord/coordinator.hpp"
#include "cairn/training/preemption_guard.hpp"
#include "cairn/training/save_policy.hpp"

#include "base/internal/clock.hpp"
#include "training/preempted_step.hpp"

namespace cairn::training {

/// What the ranks of a job decide alike, though their clocks differ, and signals reach them at different steps.
///
/// - A policy that asks for no time is asked on each rank. It sees nothing that ranks may see differently.
/// - One that does is asked on rank 0 alone, for the steps ahead, which come as fast as those before: so rank 0 names the next step to save
///   at, or to look again. It does so with each save, along with the agreement that saves make anyway, and with a message of its own at
///   steps to look at: the first ones, as long as nobody knows how long a step takes, and few later on.
/// - A rank that was sent a signal has all save at a step that none has come to; see PreemptedStep.
///
/// A step that was named is the first one that is asked about and is not below it.
/// Threads: `decide` by one thread at a time, on each rank for the same steps; the rest from any.
class RankDecisions {
 public:
  /// All but the last two are the caller's and outlive this.
  RankDecisions(const SavePolicy& policy, const PreemptionGuard* preemption, Coordinator& coordinator,
                const Clock& clock, std::uint64_t margin, const std::filesystem::path& root);

  /// Whether to save `here.step`: the same on all ranks. May talk to them, and wait for their answers.
  ///
  /// Errors: what the policy throws; Errc::peer_failed.
  [[nodiscard]] bool decide(const SaveMoment& here);

  /// A save begins: what rank 0 tells the others with it.
  [[nodiscard]] std::string begin_save(const SaveMoment& here);
  void hear(std::string_view word);
  /// It has ended after so long; on rank 0 that counts.
  void end_save(std::chrono::nanoseconds duration);

  /// From the step on that was agreed on because of a signal.
  [[nodiscard]] bool is_preempted() const { return preempted_.has_come(); }

 private:
  /// What rank 0 has named last.
  struct Named {
    bool is_save = false;  ///< Else to look again.
    std::uint64_t step = 0;
  };

  [[nodiscard]] bool decide_by_time(const SaveMoment& here);
  void look(const SaveMoment& here);
  void measure_steps(std::uint64_t step);
  /// The next step to save at from `first` on, as the policy will see it; `moment` is that of now, at `step`.
  [[nodiscard]] Named find_next(const SaveMoment& moment, std::uint64_t first) const;

  const SavePolicy& policy_;
  Coordinator& coordinator_;
  const Clock& clock_;
  const std::string topic_;
  PreemptedStep preempted_;

  mutable std::mutex mutex_;  // Protects what follows.
  std::condition_variable heard_;
  bool is_word_awaited_ = false;
  std::optional<Named> next_;

  // Of rank 0, on the thread that decides.
  std::optional<std::pair<std::uint64_t, std::chrono::steady_clock::time_point>> mark_;
  std::optional<std::chrono::nanoseconds> step_time_;
  std::optional<std::chrono::nanoseconds> save_time_;  // Protected by `mutex_`, too.
  std::uint64_t looks_ = 0;                            // Since the last save.
};

}  // namespace cairn::training
