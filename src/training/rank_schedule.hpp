// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/coord/coordinator.hpp"
#include "cairn/training/save_policy.hpp"
#include "cairn/training/step_options.hpp"

#include "async/internal/event.hpp"
#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"
#include "store/internal/uuid.hpp"
#include "training/call_time.hpp"

namespace cairn::training {

/// Makes the ranks of a job decide alike which steps to save, though their clocks differ and signals reach them at
/// different steps. Rank 0 decides ahead of all, and leases steps to the others.
///
/// - A lease says up to which step rank 0 has decided, and what it has named up to there: the first step that is asked
///   about and is not below. No rank goes beyond its lease: there it waits for the next one. Rank 0 makes one at each
///   step that it is asked about, `margin` steps ahead, in one notice, and waits for nobody.
/// - A policy that asks for time is asked on rank 0 alone: about each step when it is leased, with the time at which
///   that step will come. At the first step of a line all ranks meet, so that none misses a lease.
/// - A policy that asks for none is asked on each rank, which sees nothing that ranks may see differently. There are no
///   leases until a rank was sent a signal. With the first lease that a rank hears it tells rank 0 how far it has come.
/// - Once all ranks go by leases, the step to save because of a signal is the first one that none can have come to.
///
/// Only a failed save because of a signal changes what comes: rank 0 names another step. Whoever misses a notice asks
/// rank 0, which says again what it has named since the last step that all have saved.
/// Invariant: what was said of a step that is leased stays so until the training goes back.
/// Threads: `decide` and `go_back` by one thread at a time, on each rank for the same steps; the rest from any.
class RankSchedule {
 public:
  /// All but the last three are the caller's and outlive this. `margin`: see CheckpointerOptions::preemption_margin.
  RankSchedule(const SavePolicy& policy, const PreemptionGuard* preemption, coord::Coordinator& coordinator,
               const Clock& clock, std::uint64_t margin, const std::filesystem::path& root,
               const store::RandomSource& random);

  /// Returns whether to save `here.step`: the same on all ranks. `is_forced`: it is saved whatever the policy says.
  ///
  /// Errors: what the policy throws, elsewhere than on rank 0 its words; Errc::timed_out; Errc::peer_lost;
  ///         Errc::peer_failed: ranks that are there have not answered for CoordinatorOptions::lost_after, or have not
  ///         come within the join timeout of `time`; of the first step as Channel::broadcast.
  [[nodiscard]] bool decide(const SaveMoment& here, bool is_forced, const CallTime& time);

  /// The save of a step has ended here; nothing: it has failed, perhaps before it began. May be called again.
  void end_save(std::uint64_t step, std::optional<std::chrono::nanoseconds> duration) noexcept;

  /// All ranks go back to a step: another line begins, of which nothing is decided.
  void go_back();

  /// From the step on that was named because of a signal.
  [[nodiscard]] bool is_preempted() const;

 private:
  using Step = std::uint64_t;
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Rank 0 says this of one step.
  struct Named {
    Step step = 0;
    bool is_due = false;           ///< By the policy, where rank 0 alone asks it.
    bool is_preempted = false;     ///< To be saved because of a signal.
    std::exception_ptr failure{};  ///< The policy threw it.
  };

  /// A lease, or what another rank tells rank 0.
  struct Notice {
    std::uint64_t line = 0;  ///< Names this Checkpointer and no other of the root; 0: nothing is leased.
    Step from = 0;  ///< Up to which step others were made before; the highest that a rank has come to.
    Step up_to = 0;
    bool is_signalled = false;  ///< The rank that says this was sent a signal.
    std::deque<Named> named{};  ///< By their steps.
  };

  static std::string encode(const Notice& notice);
  static Notice decode(std::string_view text);
  static bool append(Notice& known, const Notice& more);

  Named lead(const SaveMoment& here, bool is_forced, bool is_lent, const CallTime& time);
  Named follow(Step step, bool is_lent, const CallTime& time);
  void meet(const CallTime& time);
  void begin_line() CAIRN_REQUIRES(mutex_);
  void require_answer(Step step, std::chrono::nanoseconds silence, bool is_lent, const CallTime& time) const;
  Named come_to(Step step) CAIRN_REQUIRES(mutex_);
  [[nodiscard]] bool is_signalled() const { return preemption_ != nullptr && preemption_->is_preempted(); }
  [[nodiscard]] bool names_preempted() const CAIRN_REQUIRES(mutex_);
  void hear(std::size_t from, std::string_view text);

  // On rank 0.
  void measure(Step step);
  [[nodiscard]] Notice look_ahead(const SaveMoment& here, bool is_forced);
  [[nodiscard]] SaveMoment predict(const SaveMoment& here, Step step, std::optional<Step> due,
                                   std::vector<Step>& steps) const;
  [[nodiscard]] Notice extend(Step step) CAIRN_REQUIRES(mutex_);
  void require_reports() const CAIRN_REQUIRES(mutex_);
  [[nodiscard]] std::string hear_report(std::size_t from, const Notice& report) CAIRN_REQUIRES(mutex_);
  // Elsewhere.
  [[nodiscard]] std::string report() const CAIRN_REQUIRES(mutex_);
  [[nodiscard]] std::string hear_lease(Notice lease) CAIRN_REQUIRES(mutex_);

  const SavePolicy& policy_;
  const PreemptionGuard* const preemption_;
  coord::Coordinator& coordinator_;
  const Clock& clock_;
  const std::uint64_t margin_;
  const std::uint64_t line_;  // As Notice has it, of what rank 0 leases.
  const std::string topic_;

  mutable Mutex mutex_;
  async::Event changed_ CAIRN_GUARDED_BY(mutex_);  // Happens with the next lease that is heard.
  // Holds what is leased, and all that was named since the last step that all ranks have saved.
  Notice leased_ CAIRN_GUARDED_BY(mutex_);
  std::size_t come_ CAIRN_GUARDED_BY(mutex_) = 0;         // This rank has come to so many of the named.
  std::optional<Named> here_ CAIRN_GUARDED_BY(mutex_);    // The step of this line that was asked about last.
  Step asked_ CAIRN_GUARDED_BY(mutex_) = 0;               // The highest of them.
  std::optional<Step> come_at_ CAIRN_GUARDED_BY(mutex_);  // The last one that was named because of a signal.
  TimePoint heard_
      CAIRN_GUARDED_BY(mutex_);  // When rank 0 was heard last; there: when a rank was heard first.

  // Used by rank 0.
  bool wants_preempted_ CAIRN_GUARDED_BY(mutex_) = false;  // A step is to be named because of that.
  std::set<std::size_t> silent_ CAIRN_GUARDED_BY(mutex_);  // These ranks may go on without a lease.
  Step furthest_ CAIRN_GUARDED_BY(mutex_) = 0;             // The highest step that any had come to without.
  TimePoint answered_ CAIRN_GUARDED_BY(mutex_);
  Step stride_ CAIRN_GUARDED_BY(mutex_) = 1;  // Between the last two steps that were asked about.
  std::optional<std::chrono::nanoseconds> save_time_ CAIRN_GUARDED_BY(mutex_);
  // On the thread that decides.
  std::optional<std::pair<Step, TimePoint>> mark_;
  std::optional<std::chrono::nanoseconds> last_step_time_;
  std::optional<std::chrono::nanoseconds> step_time_;  // The shorter one of the last two.

  std::shared_ptr<void> listening_;  // Goes first.
};

}  // namespace cairn::training
