// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "cairn/store/listing.hpp"

#include "io/internal/syscalls.hpp"

namespace cairn::store {

/// The checkpoints of a directory, those that readers find, in the order that `options` ask for. Changes nothing, reads no
/// data; blocks. Takes as long as there are entries and files in them: each entry is opened once.
///
/// Errors: as `survey`. What is wrong with an entry is its `problem`.
[[nodiscard]] std::vector<FoundCheckpoint> list_checkpoints(io::Syscalls& syscalls,
                                                            const std::filesystem::path& root,
                                                            const ListOptions& options = {});

/// Whether there is a checkpoint at `path` that recovery would call committed.
///
/// Errors: Errc::unsupported_version (a checkpoint of a later format); Errc::invalid_argument (no path); what the operating
///         system says when it cannot be told.
[[nodiscard]] bool is_committed(io::Syscalls& syscalls, const std::filesystem::path& path);

}  // namespace cairn::store
