// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

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

 private:
  io::FileHandle commit_;
  bool is_held_ = true;
};

}  // namespace cairn::store
