// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/io/recovery.hpp"

namespace cairn {

struct RecoverOptions {
  RecoverOptions() = default;

  /// What to do; see io::RecoveryOptions.
  io::RecoveryOptions recovery;
  /// From the call to its end; afterwards it comes back with Errc::timed_out, and may go on. Zero: no limit.
  std::chrono::nanoseconds deadline{0};
};

/// Cleans a directory of checkpoints after a crash; see io::recover.
///
/// Errors: Errc::not_found (no such directory), Errc::timed_out; OS errors on the directory itself.
io::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options = {},
                           const Context& context = default_context());

}  // namespace cairn
