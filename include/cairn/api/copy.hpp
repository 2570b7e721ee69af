// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/core/context.hpp"
#include "cairn/core/save.hpp"

namespace cairn {

struct CopyOptions {
  CopyOptions() = default;

  /// Replace an existing checkpoint instead of failing. The old one stays until the copy is durable.
  bool overwrite = false;
  /// As SaveOptions::create_parents.
  unsigned create_parents = 1;
  /// From the call to `committed`; afterwards the copy fails with Errc::timed_out. Zero: no limit.
  Timeout deadline;
  /// Takes a trace of this copy; see TraceSink. Null: none is made.
  TraceSink trace;
};

/// Makes the checkpoint at `to` of the one at `from`: the same files, uuid, hashes and metadata. Returns when it is
/// durable.
///
/// No handler takes part. Each byte is hashed on its way and compared with what was written, before the copy becomes
/// visible. Where the same checkpoint is at `to` already, nothing is done, also with `overwrite`, and the result says
/// no more than its path: its bytes are not looked at, `verify` does that. While it is copied, the original may be
/// pinned, and is in use for those who remove steps. After a crash `to` is what it was before, or the whole copy.
/// Memory:  staging buffers of the context's, of 4 MiB each.
/// Threads: safe; not from one of the context's own threads. Several ranks copy each for itself.
/// Errors:  Errc::checksum_mismatch, naming file and chunk: the original is damaged. Errc::not_found: there is none, or
///          it was removed or replaced meanwhile. Errc::not_committed: it is no checkpoint. As saves:
///          Errc::already_exists, Errc::timed_out, Errc::commit_unknown, OS errors. Nothing is left behind.
/// Example: cairn::copy_checkpoint("/mnt/fast/run/7", "/mnt/archive/run/7");
SaveResult copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to,
                           const CopyOptions& options = {}, const Context& context = default_context());

/// As above, but returns when both paths were looked at, and copies in the background. `staged` has no meaning for a
/// copy, which happens with it early.
///
/// Errors: what the looks find is thrown; what comes later, by the response.
[[nodiscard]] AsyncResponse copy_checkpoint_async(const std::filesystem::path& from,
                                                  const std::filesystem::path& to,
                                                  const CopyOptions& options = {},
                                                  const Context& context = default_context());

}  // namespace cairn
