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
  /// Straight to disk, if it is due there; `was_skipped`: it was due in memory, too.
  FlashSave(std::uint64_t step, StepResponse disk, bool was_skipped);

  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }
  [[nodiscard]] bool was_skipped() const noexcept { return was_skipped_; }
  [[nodiscard]] bool is_to_be_persisted() const noexcept { return is_to_be_persisted_; }

  /// Blocks until the image is complete, or what goes straight to disk is there; for users, who are told here.
  ///
  /// Errors: what went wrong; Errc::still_running.
  SaveResult wait_in_memory(Timeout timeout);
  /// Blocks until it has ended; for users, who are told here.
  ///
  /// Errors: as above.
  SaveResult wait(Timeout timeout);

  /// Blocks until the image is complete; for who has begun it, who is told once by `on_end` of how it has ended (null:
  /// it is complete), however often this is called.
  ///
  /// Errors: what went wrong.
  void settle(const std::function<void(const SaveResult& image, const std::exception_ptr& failure)>& on_end);
  /// Returns whether `settle` does not wait.
  [[nodiscard]] bool is_complete() const { return memory_.is_done(); }
  /// It is on disk.
  void end(SaveResult result);
  /// It will not be.
  void fail(std::exception_ptr why);
  /// Returns whether a user was told of its failure, or is now.
  bool tell();

 private:
  const std::uint64_t step_;
  const bool was_skipped_;
  const bool is_to_be_persisted_;
  const AsyncResponse memory_;  // Empty, or `disk_` is.
  const StepResponse disk_;
  std::once_flag settled_;

  const async::Event ended_;
  Mutex mutex_;
  std::optional<SaveResult> result_ CAIRN_GUARDED_BY(mutex_);
  std::exception_ptr failure_ CAIRN_GUARDED_BY(mutex_);
  bool is_told_ CAIRN_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn::flash
