// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/io/syscalls.hpp"
#include "cairn/io/uuid.hpp"

namespace cairn::io {

/// Removes the checkpoint at `path` for good, with all its generations. Blocks.
///
/// After a crash at any moment the checkpoint is there, whole, or what is left of it is `recover`'s to remove:
/// 1. its directory is renamed to `.trash-<name>-<uuid>`, which no reader takes for a checkpoint;
/// 2. the parent is synced; from here on no power cut brings it back;
/// 3. the files are removed, COMMIT last.
/// Older generations go first, so that none of them is ever taken for the checkpoint.
/// A checkpoint whose data is damaged is removed, too; one whose COMMIT is damaged is not, because recovery could
/// not tell what is left of it from a stranger's files.
/// Threads: safe. A save to the same path at the same time may lose its checkpoint.
/// Errors:  Errc::invalid_argument (no name of a checkpoint), Errc::not_found, Errc::not_committed (a file, a link,
///          any other directory), Errc::malformed_metadata and Errc::unsupported_version (COMMIT is damaged, or not
///          ours to judge): nothing is removed. OS errors pass through; when the checkpoint is gone from `path` then,
///          it may come back after a power cut until `recover` has removed the rest.
void remove_checkpoint(Syscalls& syscalls, const std::filesystem::path& path,
                       const RandomSource& random = system_random);

}  // namespace cairn::io
