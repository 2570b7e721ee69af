// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "cairn/api/context.hpp"
#include "cairn/core/find.hpp"

namespace cairn {

/// The checkpoints of a directory, the oldest first, with the default context; see cairn/core/find.hpp.
///
/// Example: for (const cairn::FoundCheckpoint& each : cairn::list_checkpoints("run")) { … each.name … each.path … }
[[nodiscard]] std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& root,
                                                            const ListOptions& options = {});
[[nodiscard]] Awaitable<std::vector<FoundCheckpoint>> list_checkpoints_async(
    const std::filesystem::path& root, const ListOptions& options = {});

/// The newest checkpoint of a directory, with the default context; see cairn/core/find.hpp.
///
/// Example: if (const auto newest = cairn::latest_checkpoint("run")) { state = cairn::load(newest->path); }
[[nodiscard]] std::optional<FoundCheckpoint> latest_checkpoint(const std::filesystem::path& root,
                                                               const LatestOptions& options = {});
[[nodiscard]] Awaitable<std::optional<FoundCheckpoint>> latest_checkpoint_async(
    const std::filesystem::path& root, const LatestOptions& options = {});

/// Whether there is a checkpoint at `path`, with the default context; see cairn/core/find.hpp.
[[nodiscard]] bool is_checkpoint(const std::filesystem::path& path, const IsCheckpointOptions& options = {});
[[nodiscard]] Awaitable<bool> is_checkpoint_async(const std::filesystem::path& path,
                                                  const IsCheckpointOptions& options = {});

/// Loads the newest checkpoint of the directory `root`, as load_checkpointables does; nothing when there is none. `root` itself may
/// be missing where the directory above it is there: nothing was saved yet.
///
/// A newest one that is damaged is an error or, with LoadLatestOptions::fall_back, passed over; `passed_over` of the result says
/// why. What is wrong with the request (a name that the checkpoint does not have, another shape) is an error in any case.
/// Ownership: as load_checkpointables. Objects loaded into may hold parts of several checkpoints when the call throws.
/// Threads:   safe, also while others save there and remove; not from one of the context's own threads.
/// Errors:    as list_checkpoints and load_checkpointables; Errc::not_committed (the newest one is displaced: `recover` puts it
///            back). With `fall_back`, where none can be loaded: that of the newest. Errc::timed_out.
/// Example:   cairn::LoadLatestOptions options;
///            options.fall_back = true;
///            if (auto latest = cairn::load_latest("run", {"state"}, options)) {
///              state = latest->loaded.take<cairn::Tree>("state");
///            }
[[nodiscard]] std::optional<LoadedLatest> load_latest(const std::filesystem::path& root,
                                                      const Requests& requests = {},
                                                      const LoadLatestOptions& options = {},
                                                      const Context& context = default_context());

/// The same, to be awaited on any executor; it begins when it is awaited, and the deadline counts from there.
///
/// Ownership: objects and memory that a request loads into must live until it has ended.
/// Cancel:    stops the load, and ends when it has released the caller's memory.
/// Example:   if (auto latest = co_await cairn::load_latest_async("run")) { state = latest->loaded.take<cairn::Tree>("state"); }
[[nodiscard]] Awaitable<std::optional<LoadedLatest>> load_latest_async(
    const std::filesystem::path& root, const Requests& requests = {}, const LoadLatestOptions& options = {},
    const Context& context = default_context());

}  // namespace cairn
