// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/core/load.hpp"
#include "cairn/handlers/abstract_tree.hpp"

namespace cairn {

/// What a checkpoint says of itself and of its checkpointables. Opens a few files and reads no array data,
/// however large the checkpoint is. `path` as for load_checkpointables.
///
/// A checkpointable of a handler that is not registered is listed too, with a `problem`.
/// Errors:  Errc::not_found, Errc::not_committed, and those of damaged files.
/// Example: for (const auto& [name, item] : checkpointables_metadata("run/100"))
///            for (const auto& array : arrays(item)) …
[[nodiscard]] CheckpointMetadata checkpointables_metadata(const std::filesystem::path& path,
                                                          const Context& context = default_context());
/// The same with options: a deadline.
[[nodiscard]] CheckpointMetadata checkpointables_metadata(const std::filesystem::path& path,
                                                          const LoadOptions& options,
                                                          const Context& context = default_context());

/// What the tree `state` looks like: types, shapes and small values, to be changed into what a load asks for.
[[nodiscard]] AbstractTree metadata(const std::filesystem::path& path,
                                    const Context& context = default_context());
[[nodiscard]] AbstractTree metadata(const std::filesystem::path& path, const LoadOptions& options,
                                    const Context& context = default_context());

}  // namespace cairn
