// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cairn/api/context.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"
#include "cairn/training/checkpointer.hpp"
#include "cairn/training/save_policy.hpp"
#include "cairn/training/step_options.hpp"

namespace cairn {

namespace flash {
class FlashSave;
}

struct FlashOptions {
  FlashOptions() = default;

  /// A directory on a tmpfs, of this run alone: "/dev/shm/run-42". Made with mode 0700 where it is missing.
  std::filesystem::path memory;
  /// Most memory that it takes, at any moment. An image takes its arrays and some 64 KiB. 0: two images, as large as
  /// the largest so far has turned out to be.
  std::uint64_t memory_bytes = 0;
  /// Which steps are kept in memory.
  SavePolicy to_memory = save_when::every_steps(1);
  /// What is kept on disk: policies, names, links, preemption. `disk.save` says which steps are written there.
  CheckpointerOptions disk;
  /// Where there is room for one image only: it may give way to the next though neither it nor a newer step is on disk.
  bool may_lose_the_only_image = false;
  /// Starts `cairn agent --detach` where no agent serves the memory: it has the last word for this program, and ends
  /// with it. ContextOptions::on_lost_failure is told where it cannot be started.
  bool start_agent = false;
  std::filesystem::path agent_program = "cairn";  ///< Looked for in PATH.
};

/// The save of a step into memory, to disk, or both; empty when both policies declined.
///
/// May be dropped: the FlashCheckpointer tells of a failure that nobody was told here.
/// Threads: every method may be called from any thread.
class FlashResponse {
 public:
  FlashResponse() = default;
  explicit FlashResponse(std::shared_ptr<flash::FlashSave> save) noexcept;

  [[nodiscard]] explicit operator bool() const noexcept { return save_ != nullptr; }
  /// Returns whether the memory got nothing because all of it was in use: that is counted, and no failure.
  [[nodiscard]] bool was_skipped() const;
  /// Blocks until the end of the program would not lose the step: it is in memory or, where that was skipped and the
  /// disk was due, there.
  ///
  /// Errors: what went wrong; Errc::still_running: the save goes on.
  void wait_in_memory(Timeout timeout = kForEver) const;
  /// Blocks until the step is on disk, if it was to be, or the disk has refused it; else until it is in memory.
  ///
  /// Errors: Errc::superseded: the disk took another step in its place, or will. What the disk says, which is tried
  ///         again: a later call may come to another end. As wait_in_memory.
  SaveResult wait(Timeout timeout = kForEver) const;

 private:
  static constexpr Timeout kForEver{std::chrono::nanoseconds::max()};

  std::shared_ptr<flash::FlashSave> save_;
};

/// What a training has measured of both levels, and what follows from it.
struct FlashPeriods {
  PeriodReport memory;
  PeriodReport disk;

  /// The part of the time that both are expected to lose: to saves, steps computed again, and restarts; 1 at most.
  [[nodiscard]] double expected_loss() const;
  /// The part of its time in which nothing of both has stopped the program, or slowed it down by as much.
  [[nodiscard]] double goodput() const;
  /// An object with the reports as `memory` and `disk`.
  [[nodiscard]] std::string json() const;
  /// In Prometheus' text format: `cairn_flash_memory_save_period_seconds` and so on.
  [[nodiscard]] std::string prometheus_text() const;
};

enum class ResumedFrom : std::uint8_t { memory, disk };

/// The step from which a training goes on, and where it lay.
struct FlashResumed : Resumed {
  ResumedFrom from = ResumedFrom::disk;
  std::string why;  ///< "step 117 is in memory, 100 on disk".
};

/// A Checkpointer with a level in memory before the disk: a program that dies loses what came after the newest image,
/// a machine that dies what came after the newest step on disk.
///
/// An image is a checkpoint in a directory on a tmpfs, so the kernel keeps it, whoever dies. `save` copies the values
/// once, whichever levels are due; what is to go to disk is copied there from the image, in the background. There are
/// two images as a rule: one is complete while the other is filled. The newest complete one is never given up, nor one
/// that somebody reads; where none may be, the save into memory is skipped. What waits for the disk is the newest
/// image, not the step that was due.
/// Example: cairn::FlashOptions options;
///          options.memory = "/dev/shm/run-42";
///          options.disk.save = cairn::save_when::every_steps(100);
///          cairn::FlashCheckpointer run("run", options);
///          std::uint64_t step = 0;
///          if (auto resumed = run.resume({{"state", cairn::into(state)}})) { step = resumed->step + 1; }
///          for (; step < last; ++step) {
///            train(state);
///            run.save(step, {{"state", state}});
///          }
///          run.close();
/// Threads: as Checkpointer.
class FlashCheckpointer {
 public:
  /// Takes the memory for this program; waits up to 5 s for one that is just ending. The context must outlive this.
  ///
  /// Errors: Errc::invalid_argument: `memory` is on no tmpfs, a link, another user's, open to others, not empty and no
  ///         memory, of another run (both are named), or the same as `root`, or one lies in the other; a coordinator of
  ///         several ranks (not yet); this program has the memory already. EBUSY: another one has it. As Checkpointer.
  explicit FlashCheckpointer(std::filesystem::path root, FlashOptions options = {},
                             const Context& context = default_context());
  /// As `close`, but hands what `close` would throw to ContextOptions::on_lost_failure.
  ~FlashCheckpointer();
  FlashCheckpointer(const FlashCheckpointer&) = delete;
  FlashCheckpointer& operator=(const FlashCheckpointer&) = delete;

  /// Saves the step where the policies say so. Returns when the values may change; before that it waits until the
  /// image before is complete, and for the disk only when a step goes straight there.
  ///
  /// Ownership: as Checkpointer::save.
  /// Errors:    what went wrong with the image before, once: then nothing is saved. Errc::invalid_argument: the step is
  ///            not above the newest in memory: who goes back calls `rewind`; or, unless it is forced, not above the
  ///            newest on disk, and the program has not called `resume` or `rewind`. As Checkpointer::save, but for
  ///            what the disk says: that is the response's.
  FlashResponse save(std::uint64_t step, const Checkpointables& items, const StepOptions& options = {});

  /// Goes on from the newest step that is whole, in memory or on disk; nothing when there is none. A damaged image is
  /// passed over; for the disk ResumeOptions::fall_back says that.
  ///
  /// Errors: as Checkpointer::resume.
  [[nodiscard]] std::optional<FlashResumed> resume(const Requests& requests = {},
                                                   const ResumeOptions& options = {});
  /// Loads a given step, from memory if it is there, else from disk.
  [[nodiscard]] Loaded load(std::uint64_t step, const Requests& requests = {},
                            const LoadOptions& options = {});
  [[nodiscard]] CheckpointMetadata metadata(std::uint64_t step);
  /// Goes back to this step: later images are given up, and later steps of the disk are set aside.
  ///
  /// Errors: Errc::not_found: it is on neither level. EBUSY: somebody reads a later image. As Checkpointer::rewind. No
  ///         image is given up then.
  void rewind(std::uint64_t step);

  /// The newest image that is complete.
  [[nodiscard]] std::optional<std::uint64_t> latest_in_memory() const;
  /// How many saves into memory were skipped so far.
  [[nodiscard]] std::uint64_t skipped() const;
  /// The steps on disk.
  [[nodiscard]] Checkpointer& disk() noexcept;
  /// Returns what saves have cost so far, and how often to save on both levels: for programs that fail every `mtbf` on
  /// average, and a memory that is lost every `mtbf_of_memory`.
  ///
  /// Errors: Errc::invalid_argument: one of them is 0.
  [[nodiscard]] FlashPeriods periods(Timeout mtbf, Timeout mtbf_of_memory) const;
  /// The same for what both policies go by: the times that they were given, else what has happened in this run so far;
  /// see save_when::automatic.
  [[nodiscard]] FlashPeriods periods() const;

  /// Blocks until nothing is being saved, persisted or removed, or the disk refuses what is to be persisted.
  ///
  /// Errors: what the disk says; it is tried again. What went wrong and nobody was told, once; as Checkpointer::wait.
  void wait();
  /// As `wait`, and refuses new saves from then on; tries a disk again until CheckpointerOptions::close_timeout. The
  /// images stay where they are. May be called again. ContextOptions::on_lost_failure is told when the last step that
  /// was given is neither in memory nor on disk.
  ///
  /// Errors: as `wait`. Errc::still_running: the disk did not take the newest step in time; it is in memory.
  void close();

 private:
  struct State;
  [[nodiscard]] State& own() const;

  std::shared_ptr<State> state_;
  const long process_;
};

}  // namespace cairn
