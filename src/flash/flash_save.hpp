// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

#include "cairn/base/timeout.hpp"
#include "cairn/core/save.hpp"
#include "cairn/training/checkpointer.hpp"

#include "async/internal/event.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::flash {

/// The save of a step: shared by who has begun it, who persists it, and whom it was told.
///
/// Threads: every method may be called from any thread.
class FlashSave {
 public:
  /// Into memory; `is_due_on_disk`: it ends when it was persisted.
  FlashSave(std::uint64_t step, AsyncResponse memory, bool is_due_on_disk);
  /// Straight to disk; an empty response: it could not begin there, and `fail` says why.
  FlashSave(std::uint64_t step, StepResponse disk, bool was_skipped);
  /// Of a step that is not saved now. `is_due_on_disk`: its image is complete, and to be persisted; or it is none, and
  /// `fail` says why.
  FlashSave(std::uint64_t step, bool is_due_on_disk, bool was_skipped);

  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }
  /// It was due in memory, and is not there.
  [[nodiscard]] bool was_skipped() const noexcept { return was_skipped_; }
  [[nodiscard]] bool goes_straight() const noexcept { return disk_.has_value(); }

  /// Blocks until the image is complete, or what goes straight to disk is there; for users, who are told here.
  ///
  /// Errors: what went wrong; Errc::still_running.
  SaveResult wait_in_memory(Timeout timeout);
  /// Blocks until it has ended, or the disk has refused it; for users, who are told here.
  ///
  /// Errors: as above.
  SaveResult wait(Timeout timeout);
  /// Blocks until what goes straight to disk is there; for who has begun it.
  ///
  /// Errors: what went wrong.
  SaveResult settle_straight();

  /// Blocks until the image is complete; for who has begun it, who is told once by `on_end` of how it has ended (null:
  /// it is complete), however often this is called.
  ///
  /// Errors: what went wrong.
  void settle(const std::function<void(const SaveResult& image, const std::exception_ptr& failure)>& on_end);
  /// Returns whether `settle` does not wait.
  [[nodiscard]] bool is_complete() const { return !memory_ || memory_->is_done(); }
  /// It is on disk.
  void end(SaveResult result);
  /// It will not be. What has failed already stays as it is.
  void fail(std::exception_ptr why);
  /// The disk has refused it, for now; `try_again` takes that back.
  void refuse(std::exception_ptr why);
  void try_again();
  /// Returns whether a user was told of its failure, or is now.
  bool tell();

 private:
  void answer(std::optional<SaveResult> result, std::exception_ptr failure, bool is_last);

  const std::uint64_t step_;
  const bool was_skipped_;
  const bool is_to_be_persisted_;
  const std::optional<AsyncResponse> memory_;
  const std::optional<StepResponse> disk_;
  std::once_flag settled_;

  Mutex mutex_;
  async::Event answered_ CAIRN_GUARDED_BY(mutex_);  // There is a result, or a failure.
  std::optional<SaveResult> result_ CAIRN_GUARDED_BY(mutex_);
  std::exception_ptr failure_ CAIRN_GUARDED_BY(mutex_);
  bool has_ended_ CAIRN_GUARDED_BY(mutex_) = false;
  bool is_told_ CAIRN_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn::flash
