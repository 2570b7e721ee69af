// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/store/reports.hpp"

#include "io/internal/syscalls.hpp"
#include "store/internal/store.hpp"

namespace cairn::store {

/// Compares every byte of a committed checkpoint with the chain COMMIT, checkpoint.json, chunk hashes, chunks.
///
/// Does not stop at damage: the report lists all that was found. A damaged chunks.xxh3 does not hide the state of the
/// data, which is then compared with the root of each file. Memory: one chunk per thread, and eight bytes for
/// each MiB of the files being read. Begins again when the checkpoint is replaced meanwhile. Blocks.
///
/// Errors: Errc::not_found, Errc::not_committed, and what else makes CommittedDirectory::open fail: without a sound
///         COMMIT and checkpoint.json there is nothing to compare with. Errc::not_found when `directory` is none of
///         the checkpoint.
[[nodiscard]] VerifyReport verify(io::Syscalls& syscalls, const std::filesystem::path& path,
                                  const VerifyOptions& options = {}, const Store& store = directory_store());

}  // namespace cairn::store
