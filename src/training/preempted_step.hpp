// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/coord/coordinator.hpp"
#include "cairn/training/step_options.hpp"

#include "async/internal/event.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::training {

/// The step at which all ranks save because one of them was sent a signal, though they hear of it at different steps.
///
/// A rank that was sent a signal tells rank 0, which proposes a step ahead. Each rank answers whether it is before
/// that step; if so it waits there until rank 0 has heard it of all, which is soon: transports answer, not trainings.
/// If one has passed the step, rank 0 proposes a later one, and the ranks that wait go on; also where ranks without a
/// thread of the transport's do not answer soon, as they may have passed it and wait for rank 0 in a call of MPI.
/// Without a signal nothing is sent. Where no step is ahead of all ranks any more, as steps have numbers below 2^64,
/// there is none.
/// Threads: `is_at` by one thread at a time, on each rank for the same steps; `has_come` from any.
class PreemptedStep {
 public:
  /// `preemption` may be null; else it and the coordinator are the caller's and outlive this. `margin`: see
  /// CheckpointerOptions.
  PreemptedStep(const PreemptionGuard* preemption, coord::Coordinator& coordinator, std::uint64_t margin,
                std::string topic);

  /// Returns whether it is this step: the first one that is asked about and is not below the one that was
  /// agreed on. May wait for other ranks.
  ///
  /// Errors: Errc::peer_failed: ranks (by number) did not answer within CoordinatorOptions::lost_after.
  [[nodiscard]] bool is_at(std::uint64_t step);
  /// The save of `step` has failed. Where that was the step that all ranks have come to, rank 0 proposes a later one.
  void propose_again(std::uint64_t step);
  /// The training goes back to a step: what is proposed from here on is ahead of that.
  void go_back(std::uint64_t step);
  /// Returns whether it was asked about.
  [[nodiscard]] bool has_come() const;

 private:
  struct Proposal {
    std::uint64_t round = 0;
    std::uint64_t step = 0;
    bool is_passed = false;  ///< By this rank, when it heard of it.
    bool is_agreed = false;
  };

  struct Notice {
    std::string_view word;
    std::uint64_t round = 0;
    std::uint64_t step = 0;
  };
  [[nodiscard]] static std::string encode(const Notice& notice);
  [[nodiscard]] static Notice decode(std::string_view text);

  void heed_signal();
  void wait_for_agreement();
  void give_up_proposal();
  void wake_waiter() CAIRN_REQUIRES(mutex_);
  void agree() CAIRN_REQUIRES(mutex_);
  /// Returns whether the training may not go on from the step that is asked about.
  [[nodiscard]] bool is_held() const CAIRN_REQUIRES(mutex_);
  [[nodiscard]] std::string missing_answers() const CAIRN_REQUIRES(mutex_);

  void hear(std::size_t from, std::string_view text);
  // On rank 0.
  void propose();
  [[nodiscard]] std::uint64_t ahead_of(std::uint64_t step) const;
  /// Returns what to tell the others.
  Notice enter(std::uint64_t round, std::uint64_t step) CAIRN_REQUIRES(mutex_);
  void hear_answer(std::size_t from, std::uint64_t round, std::optional<std::uint64_t> passed);
  // Elsewhere.
  void hear_proposal(std::uint64_t round, std::uint64_t step);
  void hear_agreement(std::uint64_t round);

  const PreemptionGuard* const preemption_;
  coord::Coordinator& coordinator_;
  const std::uint64_t margin_;
  const std::string topic_;

  mutable Mutex mutex_;
  async::Event changed_ CAIRN_GUARDED_BY(mutex_);  // Happens with the next change of what follows.
  // The highest step that was asked about since the training has gone back.
  std::optional<std::uint64_t> asked_ CAIRN_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> come_at_ CAIRN_GUARDED_BY(mutex_);
  std::deque<std::uint64_t> agreed_ CAIRN_GUARDED_BY(mutex_);  // Steps that are still to come.
  std::optional<Proposal> proposal_ CAIRN_GUARDED_BY(mutex_);
  std::vector<bool> is_before_ CAIRN_GUARDED_BY(mutex_);  // On rank 0: who has answered so.

  std::shared_ptr<void> listening_;  // Goes first.
};

}  // namespace cairn::training
