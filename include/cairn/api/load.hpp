// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/api/context.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/core/load.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn {

/// Loads checkpointables of the checkpoint at `path`: those that are asked for, or all.
///
/// Whatever is read is verified against the checkpoint's hashes.
/// `path` may also be the directory of one checkpointable, a safetensors file or a folder of them; those are
/// one checkpointable called `state`. As for saves, the kernel alone says what `..` in it means.
/// Ownership: objects and memory that a request loads into must live until the call returns.
/// Threads:   safe; not from one of the context's own threads.
/// Errors:    see docs/errors.md; objects loaded into may hold anything then.
/// Example:   auto loaded = load_checkpointables("run/7", {{"counter", into(counter)}, "model"});
///            Tree model = loaded.take<Tree>("model");
[[nodiscard]] Loaded load_checkpointables(const std::filesystem::path& path, const Requests& requests = {},
                                          const LoadOptions& options = {},
                                          const Context& context = default_context());

/// As above, but returns when the blocking phases of the handlers are over, and reads in the background.
///
/// Ownership: objects and memory that a request loads into must live until the load has released them.
[[nodiscard]] LoadResponse load_checkpointables_async(const std::filesystem::path& path,
                                                      const Requests& requests = {},
                                                      const LoadOptions& options = {},
                                                      const Context& context = default_context());

/// The load of one tree in flight; see LoadResponse.
class TreeResponse : private LoadResponse {
 public:
  explicit TreeResponse(LoadResponse response) : LoadResponse(std::move(response)) {}

  [[nodiscard]] Tree wait() const;
  [[nodiscard]] Tree wait(Timeout timeout) const;
  [[nodiscard]] Awaitable<Tree> loaded() const;

  using LoadResponse::cancel;
  using LoadResponse::done;
  using LoadResponse::is_done;
  using LoadResponse::is_released;
  using LoadResponse::progress;
  using LoadResponse::released;
  using LoadResponse::result;
  using LoadResponse::wait_done;
  using LoadResponse::wait_released;
};

/// The common case: the tree that is the checkpointable `state`, as it was saved or as `wanted` says.
[[nodiscard]] Tree load(const std::filesystem::path& path, const LoadOptions& options = {},
                        const Context& context = default_context());
[[nodiscard]] Tree load(const std::filesystem::path& path, AbstractTree wanted,
                        const LoadOptions& options = {}, const Context& context = default_context());
[[nodiscard]] TreeResponse load_async(const std::filesystem::path& path,
                                      std::optional<AbstractTree> wanted = std::nullopt,
                                      const LoadOptions& options = {},
                                      const Context& context = default_context());

/// Returns what a checkpoint says of itself and of its checkpointables. Opens a few files and reads no array
/// data, however large the checkpoint is. `path` as for load_checkpointables.
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
/// The same for the named checkpointables only; for all when `names` is empty.
///
/// Errors: as above; Errc::not_found for a name that the checkpoint does not have, listing what there is.
[[nodiscard]] CheckpointMetadata checkpointables_metadata(const std::filesystem::path& path,
                                                          const std::vector<std::string>& names,
                                                          const LoadOptions& options = {},
                                                          const Context& context = default_context());
/// The same, to be awaited on any executor; it begins when it is awaited, and the deadline counts from there.
///
/// Cancel: stops it.
[[nodiscard]] Awaitable<CheckpointMetadata> checkpointables_metadata_async(
    const std::filesystem::path& path, const std::vector<std::string>& names = {},
    const LoadOptions& options = {}, const Context& context = default_context());

/// Returns what the tree `state` looks like: types, shapes and small values, to be changed into what a load
/// asks for.
[[nodiscard]] AbstractTree metadata(const std::filesystem::path& path,
                                    const Context& context = default_context());
[[nodiscard]] AbstractTree metadata(const std::filesystem::path& path, const LoadOptions& options,
                                    const Context& context = default_context());
/// The same, to be awaited, as checkpointables_metadata_async is.
[[nodiscard]] Awaitable<AbstractTree> metadata_async(const std::filesystem::path& path,
                                                     const LoadOptions& options = {},
                                                     const Context& context = default_context());

}  // namespace cairn
