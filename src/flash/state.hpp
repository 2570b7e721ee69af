// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "cairn/flash/flash_checkpointer.hpp"

#include "async/internal/event.hpp"
#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"
#include "flash/flash_save.hpp"
#include "flash/internal/run_images.hpp"
#include "flash/memory.hpp"
#include "io/internal/syscalls.hpp"
#include "training/internal/save_costs.hpp"
#include "training/internal/step_copies.hpp"
#include "training/internal/worker.hpp"

namespace cairn {

/// The state and the work of a FlashCheckpointer: its saves are in saves.cpp, what persists them in persisting.cpp, its
/// loads in loads.cpp.
struct FlashCheckpointer::State {
  /// Errors: as FlashCheckpointer.
  State(const std::filesystem::path& given_root, FlashOptions how, const Context& where);

  // Saves.
  FlashResponse save(std::uint64_t step, const Checkpointables& items, const StepOptions& how);
  std::shared_ptr<flash::FlashSave> save_into_memory(std::uint64_t step, const Checkpointables& items,
                                                     const StepOptions& how, bool is_due_on_disk);
  [[nodiscard]] bool is_due_in_memory(std::uint64_t step, const StepOptions& how) const;
  [[nodiscard]] bool is_preempted() const;
  [[nodiscard]] bool is_disk_busy() const;
  std::shared_ptr<flash::FlashSave> save_straight(std::uint64_t step, const Checkpointables& items,
                                                  const StepOptions& how, bool was_skipped);
  void require_above_images(std::uint64_t step) const;
  void require_above_disk(std::uint64_t step) const;
  void require_open() const;
  void report_once_gone();
  void report_once_full(std::uint64_t step, const std::exception_ptr& why);
  void settle(flash::FlashSave& save);
  void settle_in_flight() noexcept;
  /// What a save has failed with that nobody was told of yet.
  struct Failure {
    std::shared_ptr<flash::FlashSave> save;
    std::exception_ptr why;
  };
  /// Throws it, unless a user was told meanwhile, who has waited for the save.
  static void rethrow(const Failure& untold);
  void throw_failure();
  void throw_loss();

  // The thread that persists.
  void enqueue(const std::shared_ptr<flash::FlashSave>& save);
  void persist_all() noexcept;
  void persist(std::shared_ptr<flash::FlashSave> save, bool has_waited) noexcept;
  [[nodiscard]] std::shared_ptr<flash::FlashSave> newest_for(const std::shared_ptr<flash::FlashSave>& save);
  SaveResult put_on_disk(flash::FlashSave& save);
  SaveResult copy_to_disk(std::uint64_t step);
  SaveResult copy_anew(std::uint64_t step);
  [[nodiscard]] bool may_pass(const flash::FlashSave& save, const std::exception_ptr& why) const;
  [[nodiscard]] bool wait_to_try_again(const std::shared_ptr<flash::FlashSave>& save,
                                       const std::exception_ptr& why);
  void begin_attempt();
  void give_up(flash::FlashSave& save, std::exception_ptr why) noexcept;
  void lose(const std::shared_ptr<flash::FlashSave>& save, const std::exception_ptr& why) noexcept;
  void try_disk_now();
  void wait_for_disk() const;
  [[nodiscard]] std::exception_ptr disk_refusal() const;
  void report(const std::exception_ptr& why) const noexcept;

  // Loads.
  [[nodiscard]] flash::Persisted persisted_as(std::uint64_t step);
  void look_what_is_on_disk();
  /// Enters the lines of steps, and tells of the images that are given up by that.
  std::vector<std::string> enter(const training::StepLines& lines);
  [[nodiscard]] training::StepLines lines_on_disk() const;
  /// The same where this process has gone back since, by whichever method.
  void enter_if_rewound();
  [[nodiscard]] Loaded load_image(std::uint64_t step, const Requests& requests, const LoadOptions& how);
  [[nodiscard]] bool is_damage(const std::filesystem::path& path, const std::exception_ptr& why) const;
  std::optional<FlashResumed> resume(const Requests& requests, const ResumeOptions& how);
  void make_ready(const FlashResumed& resumed);
  std::optional<FlashResumed> resume_from_memory(const Requests& requests, const ResumeOptions& how,
                                                 const std::optional<std::uint64_t>& on_disk,
                                                 std::vector<PassedOver>& passed_over);
  std::optional<FlashResumed> resume_from_disk(const Requests& requests, const ResumeOptions& how,
                                               std::vector<PassedOver>& passed_over);
  void rewind(std::uint64_t step);
  void close();
  void report_lost_end();

  const FlashOptions options;
  const int exceptions = std::uncaught_exceptions();  // Under way when it was made.
  const Context context;                              // Shared: exit() may destroy the program's own first.
  io::Syscalls& syscalls;
  const Clock& clock;
  const std::filesystem::path root;
  flash::Memory memory;
  Checkpointer disk;
  training::StepCopies copies;
  Context persisting;  // What it is persisted with.
  Mutex disk_mutex;    // Held while a step is put on disk, and while the program goes back.

  mutable Mutex mutex;
  std::shared_ptr<flash::FlashSave> in_flight CAIRN_GUARDED_BY(mutex);  // Into memory; not settled yet.
  // On its way to disk: its image is being copied, or is to be, once more perhaps; or it goes straight there.
  std::shared_ptr<flash::FlashSave> persisted CAIRN_GUARDED_BY(mutex);
  std::shared_ptr<flash::FlashSave> waiting CAIRN_GUARDED_BY(mutex);  // Due on disk since.
  StepResponse copying CAIRN_GUARDED_BY(mutex);
  std::exception_ptr disk_refused CAIRN_GUARDED_BY(mutex);  // By the disk, of the last attempt; null: none.
  // Nothing is on its way to disk, or the disk has refused it and is asked again later.
  async::Event at_rest CAIRN_GUARDED_BY(mutex) = async::Event::happened();
  Failure failure CAIRN_GUARDED_BY(mutex);  // Of a save into memory: the next save tells it.
  Failure loss CAIRN_GUARDED_BY(mutex);     // Of one that should have gone to disk.
  std::uint64_t skipped CAIRN_GUARDED_BY(mutex) = 0;
  bool is_closed CAIRN_GUARDED_BY(mutex) = false;
  bool is_giving_up CAIRN_GUARDED_BY(mutex) = false;
  async::Event interrupted CAIRN_GUARDED_BY(mutex);  // The disk is to be tried now, or never again.
  bool is_reported_gone = false;                     // Of the thread that saves.
  std::atomic<bool> is_reported_full = false;        // No save has come into memory since.
  std::atomic<bool> has_gone_on = false;             // By `resume` or `rewind`.
  bool has_saved_preempted = false;                  // Likewise.
  std::optional<std::chrono::steady_clock::time_point> last_image;  // Likewise: when its save was called.
  std::optional<std::uint64_t> last_given;                          // Likewise: of the steps that were due.
  training::SaveCosts image_costs{clock};
  std::vector<std::string> not_taken_at_start;
  unsigned refusals = 0;  // By the disk, in a row; of the thread that persists. The first is told.

  // A thread each: a disk that does not answer keeps no image from being made ready.
  training::Worker preparer;
  training::Worker persister;  // First to stop: it uses all above.
};

}  // namespace cairn
