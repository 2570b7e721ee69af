// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "cairn/store/listing.hpp"

namespace cairn::cli {

/// Returns what lies in a directory of checkpoints and is or was Cairn's, in the order of names.
///
/// Errors: those of `store::list_checkpoints`. What is wrong with an entry is its `problem`.
[[nodiscard]] std::vector<store::FoundCheckpoint> find_checkpoints(const std::filesystem::path& path);

/// Returns whether a directory without checkpoints may be the root of some: not one that has lost parts of
/// its own.
[[nodiscard]] bool may_be_root(const std::filesystem::path& path);

}  // namespace cairn::cli
