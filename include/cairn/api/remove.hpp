// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/io/remove_checkpoint.hpp"

namespace cairn {

/// Removes the checkpoint at `path` for good. Returns when no power cut can bring it back and its files are gone.
///
/// After a crash at any moment the checkpoint is there, whole, or it is not and `io::recover` removes the rest; never
/// remove one with other means. Save the next one first: this asks nobody whether it is the last.
/// Only the checkpoint's own files go. What else lies in its directory is kept, and the report says what and where.
/// Threads: safe, also while others read it: they get errors. Not while a save to `path` is in flight.
/// Errors:  Errc::not_found; Errc::not_committed (a file, a link, any directory that is no checkpoint),
///          Errc::malformed_metadata, Errc::checksum_mismatch, Errc::unsupported_version: nothing is removed. OS errors pass through;
///          see io/remove_checkpoint.hpp for what is left then.
/// Example: save("run/200", state);
///          remove_checkpoint("run/100");
io::RemovalReport remove_checkpoint(const std::filesystem::path& path,
                                    const Context& context = default_context());

}  // namespace cairn
