// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "cairn/core/context.hpp"
#include "cairn/io/recovery.hpp"
#include "cairn/io/verify.hpp"

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
io::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options,
                           const Context& context);

struct VerifyOptions {
  VerifyOptions() = default;

  /// What to check, and how; see io::VerifyOptions. With a deadline, `progress` is called on a thread of the context's.
  io::VerifyOptions verification;
  /// From the call to its end; afterwards it comes back with Errc::timed_out, and the check stops soon. Zero: no limit.
  std::chrono::nanoseconds deadline{0};
};

/// Compares every byte of a checkpoint with what was written; see io::verify.
///
/// Errors: as io::verify; Errc::timed_out.
[[nodiscard]] io::VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options,
                                      const Context& context);

}  // namespace cairn
