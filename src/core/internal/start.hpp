// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"

namespace cairn::core {

class Services;

/// Says whether the call that starts an operation waits for its end, or only for that of its blocking phase.
enum class Waiting : std::uint8_t { for_staged, for_the_end };

/// Starts a save; returns at `staged` unless `options` say otherwise. Runs the blocking phase on the calling thread.
///
/// Errors: before anything is written: Errc::invalid_argument (names, temporaries that are borrowed, custom
///         metadata), Errc::already_exists (a name given twice, an existing target), Errc::no_handler;
///         what the blocking phase throws, with the checkpointable named.
AsyncResponse start_save(const std::filesystem::path& path, Checkpointables items,
                         const RegistrySnapshot& registry, const SaveOptions& options, const Context& context,
                         Waiting waiting = Waiting::for_staged);

/// Starts a copy of the checkpoint at `from`. Returns when both paths were looked at. Of `options` it takes what
/// copies know.
///
/// Errors: before anything is written: Errc::not_found, Errc::not_committed (`from`), Errc::already_exists (`to`).
AsyncResponse start_copy(const std::filesystem::path& from, const std::filesystem::path& to,
                         const SaveOptions& options, const Context& context, Waiting waiting);

/// Starts a load of `requests`, or of everything when there are none. Returns when the blocking phases are over.
///
/// `path` is a checkpoint, the directory of one of its checkpointables, or a foreign file or folder that a
/// handler recognises: that one is called `state`.
/// Errors: Errc::not_found, Errc::not_committed, Errc::unknown_handler_id, …; each names the culprit.
LoadResponse start_load(const std::filesystem::path& path, const Requests& requests,
                        const RegistrySnapshot& registry, const LoadOptions& options, const Context& context,
                        Waiting waiting = Waiting::for_staged);
/// The same, for who waits before: the context may be gone by then.
LoadResponse start_load(const std::filesystem::path& path, const Requests& requests,
                        const RegistrySnapshot& registry, const LoadOptions& options,
                        const std::shared_ptr<Services>& services, Waiting waiting = Waiting::for_staged);

/// Tells the other ranks of a load that all make together that this rank refuses it, with the current exception,
/// before it has begun.
void tell_refusal(const std::filesystem::path& path, const LoadOptions& options,
                  const Context& context) noexcept;

/// As start_load, for a coroutine on any executor: blocks nothing. `path` is absolute. Begins when it is awaited.
///
/// Ownership: what requests load into must live until it has ended. A frame that is destroyed before stops the load,
///            and waits until it has released that memory.
/// Cancel: stops the load, and ends when it has released the caller's memory.
[[nodiscard]] Awaitable<Loaded> await_load(std::shared_ptr<Services> services, std::filesystem::path path,
                                           Requests requests, RegistrySnapshot registry, LoadOptions options);

/// Describes a checkpoint, or those of its checkpointables that are named. Reads no array data.
CheckpointMetadata read_metadata(const std::filesystem::path& path, const std::vector<std::string>& names,
                                 const RegistrySnapshot& registry, const LoadOptions& options,
                                 const Context& context);

/// As read_metadata, for a coroutine on any executor: blocks nothing. Begins when it is awaited.
///
/// Cancel: stops reading.
[[nodiscard]] Awaitable<CheckpointMetadata> metadata_async(const std::filesystem::path& path,
                                                           const std::vector<std::string>& names,
                                                           const RegistrySnapshot& registry,
                                                           const LoadOptions& options,
                                                           const Context& context);

}  // namespace cairn::core
