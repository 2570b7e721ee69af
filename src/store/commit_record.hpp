// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/internal/file.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::store {

/// Reads a directory's COMMIT, the first link of the chain.
///
/// Errors: Errc::not_committed when it has none, or not the whole of it yet, as `has_commit` says; those of
///         `decode_commit`.
[[nodiscard]] CommitRecord read_commit_record(const io::Directory& directory);

/// Returns whether a directory has a COMMIT, sound or not. On a file system without hard links a save writes
/// it where it belongs: what is not the whole of it, beside the mark of that save, is none.
///
/// Errors: OS errors.
[[nodiscard]] bool has_commit(const io::Directory& directory);

/// The manifest of a checkpoint, checked against its COMMIT; of its data nothing is looked at.
///
/// Errors: those of `CommittedDirectory::open`.
[[nodiscard]] Manifest read_manifest(const io::Directory& directory);

/// As `check_commit` of a name, for a directory that is open.
[[nodiscard]] CommitCheck check_commit(const io::Directory& directory, bool check_files);

}  // namespace cairn::store
