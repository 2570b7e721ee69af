// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/api/find.hpp"
#include "cairn/api/maintain.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"
#include "cairn/training/keep_policy.hpp"
#include "cairn/training/save_policy.hpp"
#include "cairn/training/step_directory.hpp"

namespace cairn {

/// Turns signals that announce the end of the process, SIGTERM as a rule, into a flag, so that a training saves once
/// more and ends by itself.
///
/// The handler that was there before is called, too, after the flag is set; where there was none, the signal does
/// nothing else: the program must end. The destructor puts it back. One guard at a time in a process: signals belong
/// to all of it.
/// Example: cairn::PreemptionGuard guard;
///          options.preemption = &guard;
///          options.save = save_when::any_of({save_when::every_steps(1000), save_when::preempted()});
///          … while (step < last && !guard.is_preempted()) …
/// Threads: `is_preempted` may be called from any thread, and from handlers of signals.
class PreemptionGuard {
 public:
  /// Errors: Errc::already_exists: there is another guard; Errc::invalid_argument: no signal, one that cannot be
  ///         caught, or one of a fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL).
  explicit PreemptionGuard(std::vector<int> signals = {SIGTERM});
  ~PreemptionGuard();
  PreemptionGuard(const PreemptionGuard&) = delete;
  PreemptionGuard& operator=(const PreemptionGuard&) = delete;

  /// Returns whether one of the signals has come since the guard was made.
  [[nodiscard]] bool is_preempted() const noexcept;

 private:
  void restore(std::size_t count) noexcept;

  std::vector<int> signals_;
};

/// Symbolic links in a root for people: no code follows them. Each is replaced atomically once a save is committed,
/// before old steps go. What is called like a link and is none is left alone, and reported as a failure to remove.
struct LinkOptions {
  LinkOptions() = default;

  bool latest = false;  ///< `latest` leads to the newest step.
  std::string
      best_metric;  ///< `best` leads to the best of the steps that stay by this metric; empty: there is no such link.
  Prefer best_prefer = Prefer::lower;
};

struct CheckpointerOptions {
  CheckpointerOptions() = default;

  /// Which of the steps that `save` is called with are saved.
  SavePolicy save = save_when::asked();
  /// Which of the saved steps are kept, once a later one is committed. All of them, unless told otherwise.
  KeepPolicy keep = keep::all();
  /// How steps are called.
  StepDirectoryOptions names;
  /// Which links point at steps: none by default.
  LinkOptions links;
  /// Tells whether the process is about to end; the caller's, must outlive the Checkpointer. Null: not asked.
  const PreemptionGuard* preemption = nullptr;
  /// With several ranks: so many steps ahead of its own rank 0 decides for all, with a policy of times, or when the end
  /// of the job was announced to any of them. A rank that is further ahead of rank 0 waits. The more steps, the less
  /// they wait, and the earlier a policy is asked about a step. From 1 to 10,000; others count as the nearest.
  std::uint64_t preemption_margin = 2;
  /// With several ranks: how long a call waits for ranks that do not come to it, where its own options do not say
  /// (SaveOptions::join_timeout, LoadOptions::join_timeout). Then it fails on all with Errc::peer_failed, which names
  /// them. Zero: as CoordinatorOptions::join_timeout, which is for ever unless set: such a call hangs where only a
  /// deadline tells of a rank that has died (MPI_THREAD_FUNNELED and MPI_THREAD_SERIALIZED).
  Timeout join_timeout = std::chrono::seconds(600);
  /// How long `close` and the destructor wait for the save in flight and for removals, and how long one removal, or
  /// the making of links, may take.
  Timeout close_timeout = std::chrono::seconds(600);
  /// Told why old steps were not removed, on a thread of the Checkpointer's; it is tried again after the next save,
  /// and by the first `close`. Should not throw: that is told by the next `wait` or `close`. Null: the first such
  /// failure is thrown by the next `wait` or `close`, unless a later try has succeeded.
  std::function<void(const std::exception_ptr& failure)> on_retention_failure;
};

struct StepOptions {
  StepOptions() = default;
  StepOptions(Metrics measured) : metrics(std::move(measured)) {}  // NOLINT: implicit, as an argument.

  /// Numbers by name, 1000 at most; see keep::best. One that is not finite is kept, is never the best, and is told
  /// once for each name by SaveResult::problems of the next step that is saved; also one of a step that the policy
  /// declines.
  Metrics metrics;
  /// Save whatever the policy says, also below later steps because of which the step will be removed soon; see
  /// Checkpointer::save.
  bool force = false;
  /// Do not wait for the save before, where that is still in flight, but save nothing.
  bool skip_if_busy = false;
  /// How to save; `overwrite` replaces a step that is there already, unless it is pinned. One that this Checkpointer
  /// has found damaged (`resume` has passed it over, or a load has failed) and whose COMMIT or manifest is missing is
  /// moved to `.cairn-damaged` in the root.
  SaveOptions save;
};

/// Which step is meant.
class WhichStep {
 public:
  struct Latest {};
  struct Best {
    std::string metric;
    Prefer prefer = Prefer::lower;
  };

  WhichStep(std::uint64_t step) : which_(step) {}  // NOLINT: implicit, so that a number is one.

  /// The highest.
  [[nodiscard]] static WhichStep latest() { return WhichStep(Latest()); }
  /// The best by a metric; of equal ones the later.
  [[nodiscard]] static WhichStep best(std::string metric, Prefer prefer) {
    return WhichStep(Best{std::move(metric), prefer});
  }

  [[nodiscard]] const std::variant<std::uint64_t, Latest, Best>& get() const noexcept { return which_; }

 private:
  explicit WhichStep(Latest latest) : which_(latest) {}
  explicit WhichStep(Best best) : which_(std::move(best)) {}

  std::variant<std::uint64_t, Latest, Best> which_;
};

struct ResumeOptions {
  ResumeOptions() = default;

  /// Recover the root first, which removes what crashes have left and puts back what they have displaced. For
  /// programs that save there; costs a look at each checkpoint.
  bool recover = false;
  RecoverOptions recovery;
  /// Load the next older step that is sound when the newest is damaged. Off: that is an error, as going on from an
  /// older state is a decision.
  bool fall_back = false;
  /// Where no step is found and there are checkpoints of other names (another width or prefix than
  /// CheckpointerOptions::names has): Errc::not_found, which names some. Off: the training begins anew, and
  /// ContextOptions::on_problem is told so.
  bool refuse_other_names = false;
  /// With fall_back: whether the program takes the state that was loaded; where it returns false the next older one
  /// is loaded. Of several ranks each is asked, and one that returns false is enough. Called on the thread that calls
  /// resume; what it throws ends resume. Null: whatever is sound is taken.
  std::function<bool(std::uint64_t step, Loaded& loaded)> accept;
  /// How to load; the deadline counts from the call, with all that is passed over and the waits for other ranks. With
  /// `together`, which must be the same on all ranks, rank 0 chooses the step, and the ranks load it together.
  LoadOptions load;
};

struct RewindOptions {
  RewindOptions() = default;

  /// How long the call may wait for the save in flight, for removals and for other ranks, before Errc::timed_out. Zero:
  /// for ever. Steps that rank 0 is moving meanwhile are moved.
  Timeout deadline;
};

/// The step from which a training goes on.
struct Resumed {
  std::uint64_t step = 0;
  Loaded loaded;
  std::vector<PassedOver>
      /// Newer steps that are damaged, or were not accepted, the newest first; see ResumeOptions::fall_back.
      passed_over;
};

}  // namespace cairn
