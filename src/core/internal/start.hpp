// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"

namespace cairn::core {

/// Whether the call that starts an operation waits for its end, or only for that of its blocking phase.
enum class Waiting : std::uint8_t { for_staged, for_the_end };

/// Starts a save; returns at `staged` unless `options` say otherwise. Runs the blocking phase on the calling thread.
///
/// Errors: before anything is written: Errc::invalid_argument (names, temporaries that are borrowed, custom
///         metadata), Errc::already_exists (a name given twice, an existing target), Errc::no_handler;
///         what the blocking phase throws, with the checkpointable named.
AsyncResponse start_save(const std::filesystem::path& path, Checkpointables items,
                         const RegistrySnapshot& registry, const SaveOptions& options, const Context& context,
                         Waiting waiting = Waiting::for_staged);

/// Starts a load of `requests`, or of everything when there are none. Returns when the blocking phases are over.
///
/// `path` is a checkpoint, the directory of one of its checkpointables, or a foreign file or folder that a
/// handler recognises: that one is called `state`.
/// Errors: Errc::not_found, Errc::not_committed, Errc::unknown_handler_id, …; each names the culprit.
LoadResponse start_load(const std::filesystem::path& path, const Requests& requests,
                        const RegistrySnapshot& registry, const LoadOptions& options, const Context& context,
                        Waiting waiting = Waiting::for_staged);

/// Describes a checkpoint, or those of its checkpointables that are named. Reads no array data.
CheckpointMetadata read_metadata(const std::filesystem::path& path, const std::vector<std::string>& names,
                                 const RegistrySnapshot& registry, const LoadOptions& options,
                                 const Context& context);

}  // namespace cairn::core
