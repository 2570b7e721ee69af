// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/coord/coordinator.hpp"
#include "cairn/training/checkpointer.hpp"

#include "async/internal/gate.hpp"
#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/require_timeout.hpp"
#include "core/internal/shared_context.hpp"
#include "training/call_time.hpp"
#include "training/internal/save_costs.hpp"
#include "training/internal/worker.hpp"
#include "training/rank_schedule.hpp"
#include "training/remover.hpp"
#include "training/run_history.hpp"
#include "training/step_save.hpp"

namespace cairn {

/// The state and the work of a Checkpointer: its saves are in checkpointer_saves.cpp, its loads in
/// checkpointer_loads.cpp, its ways back in checkpointer_rewind.cpp.
struct Checkpointer::State : std::enable_shared_from_this<Checkpointer::State> {
  State(std::filesystem::path root, CheckpointerOptions how, const Context& where)
      : options(std::move(how)),
        context(core::shared_context(where)),
        clock(training::clock_of(context)),
        given_root(std::move(root)),
        directory(given_root, options.names, context),
        remover(options.keep, options.links, options.close_timeout, directory, context),
        costs(clock),
        history(directory.root(), options.save.needs_history() && is_primary(), context) {
    require_not_negative(options.join_timeout, "CheckpointerOptions::join_timeout");
    announce();  // Nobody else is here yet.
    highest_own = directory.latest();
    if (coordinator().size() > 1) {
      ranks = std::make_unique<training::RankSchedule>(options.save, options.preemption, coordinator(), clock,
                                                       options.preemption_margin, given_root,
                                                       context.options().random);
    }
  }

  [[nodiscard]] coord::Coordinator& coordinator() const {
    const std::shared_ptr<coord::Coordinator>& given = context.options().coordinator;
    return given ? *given : *coord::single_process();
  }
  [[nodiscard]] bool is_primary() const { return coordinator().rank() == 0; }

  // Saves.
  /// `join_timeout`: of the options of the call; zero: of this.
  [[nodiscard]] training::CallTime time_of(std::uint64_t step, Timeout deadline, Timeout join_timeout) const;
  [[nodiscard]] bool decide(std::uint64_t step, const training::CallTime& time, bool is_forced = false);
  StepResponse save(std::uint64_t step, const Checkpointables& items, const StepOptions& how);
  void look_at_metrics(std::uint64_t step, const Metrics& metrics);
  [[nodiscard]] std::string title_of(std::uint64_t step) const;
  void tell_others(std::uint64_t step, const std::exception_ptr& why) const noexcept;
  [[nodiscard]] SaveMoment look(std::uint64_t step, StepDirectory::Steps& steps);
  void find_last_save();
  void announce() CAIRN_REQUIRES(mutex);
  void list_again(const std::function<void()>& look_again);
  [[nodiscard]] bool is_on_disk(std::uint64_t step) const;
  void require_unpinned(std::uint64_t step) const;
  void make_way(std::uint64_t step, bool overwrite) const;
  void keep_pinned(std::uint64_t step, SaveOptions& save);
  using TimePoint = std::chrono::steady_clock::time_point;
  /// A save that has begun, and the services of the context that it runs in.
  struct Begun {
    AsyncResponse response;
    std::shared_ptr<core::Services> services;
  };
  using Begin = std::function<Begun(const std::filesystem::path& path, const SaveOptions& save)>;
  StepResponse start(std::uint64_t step, const Begin& begin, const StepOptions& how, TimePoint called);
  [[nodiscard]] Begin saving_of(const Checkpointables& items);
  [[nodiscard]] Timeout time_left(std::uint64_t step, Timeout deadline, TimePoint called) const;
  void wait_for_earlier(std::uint64_t step, Timeout deadline, TimePoint called);
  void make_way_in_time(std::uint64_t step, const StepOptions& how, TimePoint called);
  [[nodiscard]] std::shared_ptr<training::StepSave> in_flight() const;
  [[nodiscard]] SaveOptions save_options(std::uint64_t step, const StepOptions& how) const;
  void enter(std::shared_ptr<training::StepSave> save, std::chrono::steady_clock::time_point begin);
  void end(training::StepSave& save, const std::exception_ptr& failure);
  void finish(training::StepSave& save) noexcept;
  void retain(std::uint64_t just_saved) noexcept;
  void wait_idle() const;
  void wait_idle(const training::CallTime& time) const;
  [[nodiscard]] bool wait_until_idle(const training::Worker& worker,
                                     std::chrono::steady_clock::time_point end) const;
  void remove_old(const std::function<void()>& remove) noexcept;
  void enter_history(bool is_over) noexcept;
  void require_may_wait() const;
  [[nodiscard]] bool waits_for_itself() const;
  [[nodiscard]] bool is_asking_here() const;
  void require_not_asking() const;
  /// Whom a failure of a save is told: the next save, which does not fail because an earlier one was called off, or
  /// who waits for all.
  enum class Tells : std::uint8_t { at_save, at_end };
  [[nodiscard]] std::exception_ptr take_save_failure(Tells when);
  void throw_earlier_failure(std::uint64_t step, bool is_due);
  void call_off(std::uint64_t step, const std::exception_ptr& why) const noexcept;
  void throw_failures();
  void require_open() const;

  // Ways back.
  void rewind(std::uint64_t step, bool may_lie_elsewhere = false, const RewindOptions& how = {});
  void rewind_here(std::uint64_t step, bool may_lie_elsewhere);
  [[nodiscard]] std::string find_use_above(std::uint64_t step) const;
  void require_lasting(std::uint64_t step, const Metrics& metrics);
  [[nodiscard]] bool is_saved_anyway(const StepOptions& how) const;
  void note_line(std::uint64_t step, const StepOptions& how);
  [[nodiscard]] bool is_of_another_program(std::uint64_t step) const;
  void note_own(std::optional<std::uint64_t> step);

  // Loads.
  [[nodiscard]] std::uint64_t resolve(const WhichStep& which) const;
  [[nodiscard]] std::optional<std::uint64_t> best(const std::string& metric, Prefer prefer) const;
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t step) const;
  /// The same, which waits for other ranks as this says where they do not.
  [[nodiscard]] LoadOptions load_options(LoadOptions how) const;
  void look_at_root(Timeout deadline) const;
  void prepare_load(const LoadOptions& how, const std::function<void()>& prepare) const;
  [[nodiscard]] std::exception_ptr judge_load(std::uint64_t step, const std::filesystem::path& path,
                                              const std::exception_ptr& failure);
  [[nodiscard]] bool is_damage(const std::exception_ptr& failure, const std::filesystem::path& path) const;
  std::optional<Resumed> resume(const Requests& requests, const ResumeOptions& how);
  std::optional<Resumed> resume_alone(const Requests& requests, const ResumeOptions& how,
                                      const training::CallTime& time);
  std::optional<Resumed> resume_together(const Requests& requests, const ResumeOptions& how,
                                         const training::CallTime& time);
  /// Why the program does not take what was loaded; empty where it does.
  [[nodiscard]] std::string refusal_of(Resumed& resumed, const ResumeOptions& how) const;
  [[nodiscard]] std::optional<FoundCheckpoint> newest_found(const std::set<std::uint64_t>& without) const;
  [[nodiscard]] std::optional<std::uint64_t> newest_on_disk(const std::set<std::uint64_t>& without) const;
  void tell_other_names(const ResumeOptions& how) const;
  void look_for_steps(const ResumeOptions& how, const std::set<std::uint64_t>& without);
  std::optional<std::uint64_t> find_newest(const ResumeOptions& how, const std::set<std::uint64_t>& without);
  std::optional<Resumed> resume_newest(const Requests& requests, const ResumeOptions& how,
                                       const training::CallTime& time,
                                       const std::set<std::uint64_t>& without);

  // Steps that are saved elsewhere first.
  void plan_copy(std::uint64_t step);
  void drop_plan(std::uint64_t step);

  const CheckpointerOptions options;
  const Context context;  // Shared: exit() may destroy the program's own before the Checkpointer.
  const Clock& clock;
  const std::filesystem::path given_root;  // Alike on all ranks, which may see it in different places.
  StepDirectory directory;
  training::Remover remover;
  training::SaveCosts costs;
  training::RunHistory history;
  const int exceptions = std::uncaught_exceptions();  // Under way when it was made.

  const async::Gate
      looks;  // What a save looks up before it begins; it may go on when the deadline has passed.
  bool has_joined = false;  // The others, for the save that begins. Of the thread that saves.

  mutable Mutex mutex;
  // The highest step that this program has saved, or that was there when it last looked for where to go on. What is
  // above is another program's.
  std::optional<std::uint64_t> highest_own CAIRN_GUARDED_BY(mutex);
  std::shared_ptr<training::StepSave> saving CAIRN_GUARDED_BY(mutex);
  // A save of whose failure nobody was told yet.
  std::shared_ptr<training::StepSave> failed CAIRN_GUARDED_BY(mutex);
  std::exception_ptr save_failure CAIRN_GUARDED_BY(mutex);
  // The save has not failed; it was called off, here or on another rank.
  bool is_called_off CAIRN_GUARDED_BY(mutex) = false;
  std::exception_ptr retention_failure CAIRN_GUARDED_BY(mutex);
  bool is_closed CAIRN_GUARDED_BY(mutex) = false;
  bool has_saved_preempted CAIRN_GUARDED_BY(mutex) = false;  // A save has begun since the preemption.
  // When the last save began, also one of an earlier process.
  std::optional<std::chrono::steady_clock::time_point> last_begin CAIRN_GUARDED_BY(mutex);
  bool is_last_looked_up CAIRN_GUARDED_BY(mutex) = false;
  std::atomic<bool> has_answered_signal{false};  // The policy was asked since; of a process that is alone.
  std::atomic<bool> has_rewound{false};          // The program knows how to go back.
  // Steps saved by force or because of a signal: a step below them is not below its own line for that.
  std::set<std::uint64_t> uncounted CAIRN_GUARDED_BY(mutex);
  // A step that is to be copied here.
  std::optional<std::uint64_t> planned CAIRN_GUARDED_BY(mutex);
  // The steps in the directory, the one that is being saved, and the one that is planned.
  StepDirectory::Steps announced CAIRN_GUARDED_BY(mutex);

  // Names of metrics that were not finite, and sentences on them that no result has told yet.
  std::set<std::string, std::less<>> odd_metrics CAIRN_GUARDED_BY(mutex);
  std::vector<std::string> untold CAIRN_GUARDED_BY(mutex);

  std::unique_ptr<training::RankSchedule> ranks;  // Null: this process is alone.

  // A thread each: a removal that takes long keeps no save from having ended.
  training::Worker removals;
  training::Worker saves;  // First to stop: it uses all above.
};

}  // namespace cairn
