// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/async/awaitable.hpp"
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

/// Cleans a directory of checkpoints after a crash; docs/reliability.md says what it does with each entry.
///
/// The last sound checkpoint of a name stays: what was replaced goes when the checkpoint that has replaced it is
/// sound and durable, and is put back or kept otherwise. It may be interrupted anywhere and called again. Symbolic
/// links are not followed. Where `root` is missing, but the directory above it is there, nothing was saved yet, and
/// the report is empty.
/// Errors: Errc::not_found (no such directory, nor one above it), Errc::invalid_argument (`root` is a checkpoint
///         itself), Errc::timed_out; OS errors on the directory itself. What cannot be removed is reported, not
///         thrown.
store::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options = {},
                              const Context& context = default_context());
/// The same, to be awaited on any executor: what blocks runs on a thread of the context's. It begins when it is
/// awaited, and the deadline counts from there.
///
/// Cancel: stops waiting; the recovery goes on.
[[nodiscard]] Awaitable<store::RecoveryReport> recover_async(const std::filesystem::path& root,
                                                             const RecoverOptions& options = {},
                                                             const Context& context = default_context());

struct VerifyOptions {
  VerifyOptions() = default;

  /// Says what to check, and how; see store::VerifyOptions. With a deadline, `progress` is called on a thread of the
  /// context's.
  store::VerifyOptions verification;
  /// From the call to its end; afterwards it comes back with Errc::timed_out, and the check stops soon. Zero: no limit.
  Timeout deadline;
};

/// Compares every byte of a checkpoint with what was written, by the hashes in it.
///
/// Does not stop at damage: the report lists all that was found. Takes one chunk of memory for each thread, and eight
/// bytes for each MiB of the files that are being read. Begins again when the checkpoint is replaced meanwhile.
/// Errors: what makes a load fail before it reads data: Errc::not_found, Errc::not_committed,
///         Errc::malformed_metadata, Errc::checksum_mismatch, Errc::unsupported_version. Without a sound COMMIT and
///         checkpoint.json there is nothing to compare with. Errc::not_found when `directory` is none of the
///         checkpoint. Errc::timed_out.
[[nodiscard]] store::VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options = {},
                                         const Context& context = default_context());

struct RemoveOptions {
  RemoveOptions() = default;

  /// From the call to its end; afterwards it comes back with Errc::timed_out. A removal that had not begun then never
  /// does. One that had goes on, before all saves to the same path that are called later; the text says which. Zero:
  /// no limit.
  Timeout deadline;
  /// Remove it although it is pinned as a step of a training (Checkpointer::pin), or somebody holds it who reads it for
  /// long, as a copy does; who does gets errors.
  bool even_if_held = false;
};

/// Removes the checkpoint at `path` for good. Returns when no power cut can bring it back and its files are gone.
///
/// Saves to `path` that were called before end first; those that are called later are published afterwards.
/// After a crash at any moment the checkpoint is there, whole, or it is not and `recover` removes the rest; never
/// remove one with other means. Save the next one first: this asks nobody whether it is the last.
/// Only the checkpoint's own files go. What else lies in its directory is kept, and the report says what and where.
/// Threads: safe, also while others read it: they get errors. Not in a handler, while a save to `path` is under way.
/// Errors:  Errc::not_found; Errc::not_committed (a file, a link, any directory that is not a checkpoint),
///          Errc::malformed_metadata, Errc::checksum_mismatch, Errc::unsupported_version, Errc::invalid_argument:
///          nothing is removed. EBUSY: it is pinned or held, and the text says by whom; nothing is removed.
///          Errc::timed_out; Errc::closed (the context was closed). OS errors pass through; what is left then goes
///          with the next recovery.
/// Example: save("run/200", state);
///          remove_checkpoint("run/100");
store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options = {},
                                       const Context& context = default_context());

}  // namespace cairn
