// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/api/context.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"
#include "cairn/training/step_directory.hpp"
#include "cairn/training/step_options.hpp"

namespace cairn {

namespace training {
struct StepLoad;
class StepSave;
}  // namespace training

/// The save of a step, in flight or over; empty when the policy declined.
///
/// May be dropped: the Checkpointer owns the save, waits for it, and tells of its failure where nobody was told here.
/// Threads: every method may be called from any thread.
class StepResponse {
 public:
  StepResponse() = default;
  explicit StepResponse(std::shared_ptr<training::StepSave> save) noexcept;

  /// Returns whether the step is saved at all.
  [[nodiscard]] explicit operator bool() const noexcept { return save_ != nullptr; }

  /// Blocks until the step is durable; rethrows what went wrong, which the Checkpointer then does not throw again. Of
  /// an empty one returns at once.
  SaveResult wait() const;
  /// Errors: Errc::still_running; the save goes on.
  SaveResult wait(Timeout timeout) const;

  /// Blocks until the values may be changed, as AsyncResponse::wait_staged; rethrows what the save has failed with
  /// before, which the Checkpointer then does not throw again. Of an empty one returns at once. For saves that
  /// return_when_accepted.
  void wait_staged() const;
  /// Errors: Errc::still_running; the save goes on, and the values must not be changed.
  void wait_staged(Timeout timeout) const;

  [[nodiscard]] bool is_staged() const;
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] SaveProgress progress() const;
  /// Asks the save to stop: it then fails with Errc::cancelled, unless it commits already.
  void cancel() const;

 private:
  std::shared_ptr<training::StepSave> save_;
};

/// The load of a step in flight. While there is one, its step is not removed by this process. Asking how it has ended
/// tells the Checkpointer of a damaged step; an error names a step that was removed meanwhile.
class StepLoadResponse : private LoadResponse {
 public:
  StepLoadResponse(LoadResponse response, std::shared_ptr<const training::StepLoad> load) noexcept;
  ~StepLoadResponse();
  StepLoadResponse(StepLoadResponse&&) noexcept = default;
  StepLoadResponse& operator=(StepLoadResponse&&) noexcept = default;

  /// As those of LoadResponse. A failure that is one of the checkpoint itself is known to the Checkpointer from then
  /// on; see Checkpointer::load.
  [[nodiscard]] Loaded wait() const;
  [[nodiscard]] Loaded wait(Timeout timeout) const;
  [[nodiscard]] Awaitable<Loaded> loaded() const;
  [[nodiscard]] LoadResult result() const;

  using LoadResponse::cancel;
  using LoadResponse::done;
  using LoadResponse::is_done;
  using LoadResponse::is_released;
  using LoadResponse::progress;
  using LoadResponse::released;
  using LoadResponse::wait_done;
  using LoadResponse::wait_released;

 private:
  std::shared_ptr<const training::StepLoad> load_;
};

namespace training {
class StepCopies;
}

/// The checkpoints of a training: saves steps into one directory when a policy says so, and removes old ones when
/// another does.
///
/// One save is in flight at most. Old steps are removed in the background, after a later one is committed, so that a
/// crash at any moment leaves the newest committed step; see plan_retention for what is never removed.
/// Example: cairn::CheckpointerOptions options;
///          options.save = cairn::save_when::every_steps(100);
///          options.keep = cairn::keep::latest(3);
///          cairn::Checkpointer run("run", options);
///          std::uint64_t step = 0;
///          if (auto resumed = run.resume({{"state", cairn::into(state)}})) { step = resumed->step + 1; }
///          for (; step < last; ++step) {
///            train(state);
///            run.save(step, {{"state", state}}, cairn::Metrics{{"loss", loss}});
///          }
///          run.close();
/// Several ranks (ContextOptions::coordinator): each has one, and they call `save`, `should_save`, `resume`
/// and `rewind` with the same steps in the same order. All ranks decide alike what is saved, when, and which
/// step they go on from (see docs/training.md). Rank 0 alone removes steps; the others learn of that when
/// they `reload`. A forked child has none of its threads: there every call fails with Errc::closed at once,
/// and the destructor does nothing.
/// Threads: `save`, `rewind`, `wait` and `close` by one thread at a time; the rest from any, at any time.
class Checkpointer {
 public:
  /// Lists the directory: the one that `root` means now, wherever the program goes later. The context should outlive
  /// this. Where it does not (exit() destroys static objects in the order opposite to that in which they were made), it
  /// has waited for saves in flight; this shares what it owned, calls that need it fail with Errc::closed, and old
  /// steps that were not removed by then stay.
  ///
  /// Errors: as StepDirectory.
  explicit Checkpointer(std::filesystem::path root, CheckpointerOptions options = {},
                        const Context& context = default_context());
  /// As `close`, but cancels a save that does not end in time, and hands what `close` would throw to
  /// ContextOptions::on_lost_failure. Returns when nothing of it runs: it waits for a disk that does not answer a
  /// look at the root. On a thread that it would have to wait for (where `wait` is refused, and std::exit is called)
  /// what runs there is left to end by itself, and does nothing more.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Saves the step, if the policy says so. Returns as soon as the values may change, like
  /// save_checkpointables_async; before that it waits for the save before.
  ///
  /// A step that is lower than the latest may be saved, and is not the latest then. Where the policy of what to keep
  /// would have it removed as soon as the next one is there, the program has probably gone back and not called
  /// `rewind`: the step is refused. A deadline counts from the call.
  /// Ownership: the values must live until the call returns; until the save ends with Snapshot::borrow.
  /// Errors:    what went wrong with the save before, once: then nothing is saved. Errc::already_exists: the step is
  ///            there (without `overwrite`), or is there and pinned. Errc::invalid_argument: a call in a policy of what
  ///            to keep, or in `on_retention_failure`; a metric's name (it is told), a step with too many digits, one
  ///            that would be removed because of later ones (not of those that are damaged, or were saved by force or
  ///            because of a signal; nor where the step itself is, or `rewind` was called). Errc::closed. What policies
  ///            throw. Errc::peer_failed: another rank has failed, or rank 0 was silent for
  ///            CoordinatorOptions::lost_after where this one had to ask it whether to save. As
  ///            save_checkpointables_async. A save of several ranks that fails on one fails on all, and all decide
  ///            alike on the steps after it.
  StepResponse save(std::uint64_t step, const Checkpointables& items, const StepOptions& options = {});

  /// Returns whether `save` would save this step now: for programs whose checkpointables take time to put
  /// together. Not to be called where `save` is not.
  [[nodiscard]] bool should_save(std::uint64_t step) const;

  /// Returns whether the training is to end: the process was sent a signal (CheckpointerOptions::preemption),
  /// and `save` was called since, so that the policy has had its say. With several ranks: one of them was
  /// sent one, and all have come to the step that rank 0 has named.
  [[nodiscard]] bool is_preempted() const;

  /// Returns what saves have cost so far, and how often to save for a job that fails every `mtbf` on average;
  /// see save_when::automatic. A cost is that of the last saves, of which each counts a third less than the
  /// one after it. `restart` as in PeriodCosts.
  ///
  /// Errors: Errc::invalid_argument: an mtbf of 0.
  [[nodiscard]] PeriodReport period(Timeout mtbf, Timeout restart = {}) const;
  /// The same for what the policy of `save` goes by: a job that fails as often as it was told (SavePolicy::mtbf), else
  /// as its run has failed so far; without a policy that needs to know (SavePolicy::needs_history) nothing is kept of
  /// earlier programs. PeriodReport::mtbf_from says which.
  [[nodiscard]] PeriodReport period() const;

  /// How often the programs of this run have failed so far, as far as it is kept.
  [[nodiscard]] FailureHistory failures() const;

  /// Goes on from the newest step: loads it; nothing when there is none. Steps are looked for on the disk again.
  ///
  /// Errors: a newest step that is damaged, with its file and chunk, unless `fall_back` is set; as load_latest and
  ///         `recover`.
  [[nodiscard]] std::optional<Resumed> resume(const Requests& requests = {},
                                              const ResumeOptions& options = {});

  /// Loads a step; see load_checkpointables.
  ///
  /// A step whose load fails because it is damaged is known to be from then on; see plan_retention.
  /// Errors: Errc::not_found: no such step, or it was removed meanwhile; no step at all; no step with the metric. As
  ///         load_checkpointables.
  [[nodiscard]] Loaded load(const WhichStep& which, const Requests& requests = {},
                            const LoadOptions& options = {});
  [[nodiscard]] StepLoadResponse load_async(const WhichStep& which, const Requests& requests = {},
                                            const LoadOptions& options = {});

  /// Returns what the checkpoint of a step says of its checkpointables; see checkpointables_metadata.
  [[nodiscard]] CheckpointMetadata metadata(const WhichStep& which) const;
  /// When it was committed, its metrics, its size, whether it is pinned. Opens no checkpointable.
  ///
  /// Errors: Errc::not_found.
  [[nodiscard]] StepInfo info(const WhichStep& which) const;

  /// The steps that are saved, sorted; not the one that is being saved.
  [[nodiscard]] std::vector<std::uint64_t> steps() const;
  /// The highest; nothing when there is none.
  [[nodiscard]] std::optional<std::uint64_t> latest() const;
  /// The best by a metric, the later one of two that are equal; nothing when there is no step at all.
  ///
  /// Errors: Errc::not_found: no step has that metric, or none a finite one.
  [[nodiscard]] std::optional<std::uint64_t> best(const std::string& metric, Prefer prefer) const;

  /// Removes a step now, whether or not the policy would keep it. Blocks. Of several ranks rank 0 does it, and the
  /// others `reload`.
  ///
  /// Errors: Errc::not_found; Errc::invalid_argument: it is pinned, or in use; another rank than 0 is asked. As
  ///         remove_checkpoint.
  void remove(std::uint64_t step);

  /// Gives up the steps above this one, to go on from here: moves them to `.cairn-rewound` in the root, where nobody
  /// takes them for steps.
  ///
  /// Waits for the save in flight, and for removals. The highest step goes first, one rename each: a crash leaves a
  /// shorter line of steps, and never a gap in it; called again it goes on. Links lead to the steps that stay.
  /// `cairn unrewind` brings back what was moved, `cairn prune --rewound` removes it. Of several ranks rank 0 does it,
  /// and all wait. Blocks.
  /// Errors: Errc::not_found: no such step. Errc::invalid_argument: steps above it are pinned, being saved or being
  ///         loaded: they are named, and nothing is moved; ranks name different steps; as `wait` on threads of its own.
  ///         Errc::peer_failed: another rank has failed. Errc::timed_out. OS errors: what was moved until then stays
  ///         so.
  void rewind(std::uint64_t step, const RewindOptions& options = {});

  /// As StepDirectory.
  void pin(std::uint64_t step);
  void unpin(std::uint64_t step);

  /// Lists the directory again: other processes may have added and removed steps.
  void reload();

  /// Blocks until no save is in flight and old steps are removed.
  ///
  /// Errors: what went wrong with the last save and, without `on_retention_failure`, with removals that no later try
  ///         has made good; each once. Errc::invalid_argument on a thread of its own, where policies of what to keep
  ///         are asked, and on one of the context's while a save is in flight: it would wait for itself.
  void wait();
  /// As `wait`, and refuses new saves from then on. What could not be removed is tried once more, the first time. May
  /// be called again.
  ///
  /// Errors: as `wait`. Errc::still_running, which names the step, or says that old ones are still being removed: it
  ///         did not end in time, and goes on.
  void close();
  void close(Timeout timeout);

 private:
  friend class training::StepCopies;
  struct State;

  /// The way to the state for the process that has made it. One that was forked has copies of its locks, and none of
  /// its threads: there it is neither used nor destroyed.
  class OwnState {
   public:
    explicit OwnState(std::shared_ptr<State> state);
    ~OwnState();
    OwnState(const OwnState&) = delete;
    OwnState& operator=(const OwnState&) = delete;

    [[nodiscard]] bool is_own_process() const noexcept;
    /// Errors: Errc::closed in a forked process.
    State* operator->() const;
    /// Errors: as above.
    [[nodiscard]] const std::shared_ptr<State>& shared() const;

   private:
    std::shared_ptr<State> state_;
    const long process_;
  };

  const OwnState state_;
};

}  // namespace cairn
