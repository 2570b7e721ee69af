// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/io/verify.hpp"

namespace cairn {

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
[[nodiscard]] io::VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options = {},
                                      const Context& context = default_context());

}  // namespace cairn
