// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/base/timeout.hpp"
#include "cairn/core/context.hpp"
#include "cairn/store/reports.hpp"

namespace cairn {

struct RecoverOptions {
  RecoverOptions() = default;

  /// What to do; see store::RecoveryOptions.
  store::RecoveryOptions recovery;
  /// From the call to its end; afterwards it comes back with Errc::timed_out, and may go on. Zero: no limit.
  Timeout deadline;
};

/// Cleans a directory of checkpoints after a crash; see store::recover.
///
/// Errors: Errc::not_found (no such directory), Errc::timed_out; OS errors on the directory itself.
store::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options,
                              const Context& context);

struct VerifyOptions {
  VerifyOptions() = default;

  /// What to check, and how; see store::VerifyOptions. With a deadline, `progress` is called on a thread of the context's.
  store::VerifyOptions verification;
  /// From the call to its end; afterwards it comes back with Errc::timed_out, and the check stops soon. Zero: no limit.
  Timeout deadline;
};

/// Compares every byte of a checkpoint with what was written; see store::verify.
///
/// Errors: as store::verify; Errc::timed_out.
[[nodiscard]] store::VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options,
                                         const Context& context);

}  // namespace cairn
