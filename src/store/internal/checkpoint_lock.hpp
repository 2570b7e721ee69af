// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/internal/clock.hpp"
#include "io/internal/file.hpp"

namespace cairn::store {

/// The right to say whether a checkpoint stays or goes: one holder at a time has it, over all processes. So nobody
/// keeps what somebody else is about to remove, or to replace.
///
/// Where a file system has no locks, or the checkpoint's files may not be written, nobody is kept from anything.
/// Ownership: holds the file COMMIT open, wherever its directory is moved to; ends with this.
class CheckpointLock {
 public:
  /// Does not wait. `entry` is the checkpoint's directory in `parent`; it may be gone. Not held is also what was
  /// replaced before it could be: the name leads to another checkpoint then.
  ///
  /// Errors: OS errors, but for those above.
  CheckpointLock(const io::Directory& parent, std::string_view entry);

  /// False when somebody else has it.
  [[nodiscard]] bool is_held() const noexcept { return is_held_; }
  /// Returns whether somebody has a CheckpointHold. Where nobody has, nobody gets one while this lives.
  [[nodiscard]] bool is_in_use() noexcept;

 private:
  io::FileHandle commit_;
  bool is_held_ = true;
};

/// Waits for a CheckpointLock that somebody else has: others hold it while they pin or replace, or until a removal has
/// begun, which takes a moment but on a slow disk.
class LockWait {
 public:
  /// `clock` outlives this.
  explicit LockWait(const Clock& clock) noexcept : clock_(&clock) {}

  /// Blocks for a millisecond of real time. Returns whether it is worth another look: false from ten seconds after the
  /// first call on.
  [[nodiscard]] bool wait();

 private:
  const Clock* clock_;
  std::optional<std::chrono::steady_clock::time_point> begin_;
};

/// Where pins lie in a directory of checkpoints: an empty file for each, which is called as the number of its step. So
/// processes that pin at the same time do not disturb each other, and nothing can be half written.
inline constexpr std::string_view kPinsName = ".cairn-pins";

/// The annotation of a checkpoint that is a step of a training, and the member of it that is the step's number.
inline constexpr std::string_view kStepNotesName = "cairn.training";
inline constexpr std::string_view kStepMember = "step";

/// Held by those who read a checkpoint for long, as many at once as there are: it is not removed meanwhile, but may be
/// pinned, or replaced. It is the lock of another byte than that of a CheckpointLock.
///
/// Ownership: as a CheckpointLock.
class CheckpointHold {
 public:
  /// Does not wait. Nobody is kept from anything where there are no locks, or the file may not be opened.
  explicit CheckpointHold(const io::Directory& checkpoint);

  /// False when somebody is about to remove it.
  [[nodiscard]] bool is_held() const noexcept { return is_held_; }

 private:
  io::FileHandle commit_;
  bool is_held_ = true;
};

}  // namespace cairn::store
