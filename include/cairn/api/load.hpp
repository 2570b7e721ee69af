// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/api/context.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/core/load.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/into.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/handlers/tree_load_options.hpp"
#include "cairn/observe/report.hpp"

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

/// The load into an object in flight; see LoadResponse. It refers to no load where it was made without one.
///
/// Ownership: the object must live until the load has released it. One that is destroyed or assigned to before stops
///            the load, and waits for that.
class LoadIntoResponse : private LoadResponse {
 public:
  LoadIntoResponse() = default;
  explicit LoadIntoResponse(LoadResponse response) : LoadResponse(std::move(response)) {}

  /// Blocks until the object is loaded; rethrows what went wrong: it may hold anything then.
  LoadResult wait() const;
  /// Errors: Errc::still_running; the load goes on.
  LoadResult wait(Timeout timeout) const;
  /// Awaits the end, on the caller's executor.
  ///
  /// Cancel: stops the load, and ends when it has released the object.
  [[nodiscard]] Awaitable<LoadResult> loaded() const;

  using LoadResponse::cancel;
  using LoadResponse::done;
  using LoadResponse::is_done;
  using LoadResponse::is_released;
  using LoadResponse::progress;
  using LoadResponse::released;
  using LoadResponse::wait_done;
  using LoadResponse::wait_released;
};

namespace detail {

/// The name of the checkpointable that `save` and `load` are about.
[[nodiscard]] std::string state_name();

LoadResult load_state(const std::filesystem::path& path, Request request, const LoadOptions& options,
                      const Context& context);
LoadIntoResponse load_state_async(const std::filesystem::path& path, Request request,
                                  const LoadOptions& options, const Context& context);

}  // namespace detail

/// Loads the checkpointable `state` into what one has: a tree, a described struct or another TreeValue, an Array, a
/// view, or an object that loads itself. As `load_checkpointables` with `into(object)`: elements are read where they
/// belong, and verified.
///
/// Ownership: `object` must live until the call returns; it may hold anything when it throws.
/// Errors:    as load_checkpointables, and those of `into`.
/// Example:   load_into("run/100", model);
template <class T>
LoadResult load_into(const std::filesystem::path& path, T& object, const LoadOptions& options = {},
                     const Context& context = default_context()) {
  return detail::load_state(path, Request(detail::state_name(), into(object)), options, context);
}

/// As above, where members may differ from what is stored: the result says which have kept their values.
///
/// Example: const LoadResult result = load_into("run/100", model, members_may_differ);
template <class T, std::same_as<MembersMayDiffer> Differ>  // Deduced: `{}` are options.
[[nodiscard]] LoadResult load_into(const std::filesystem::path& path, T& object, Differ differ,
                                   const Context& context = default_context()) {
  return load_into(path, object, LoadOptions(differ), context);
}

/// As above, but returns when the blocking phase is over, and reads in the background.
///
/// Ownership: `object` must live, and nobody else touch it, until the load has released it.
/// Errors:    what the blocking phase finds is thrown; what comes later, by the response.
/// Example:   const auto loading = load_into_async("run/100", model);
///            prepare_data();
///            loading.wait();
template <class T>
[[nodiscard]] LoadIntoResponse load_into_async(const std::filesystem::path& path, T& object,
                                               const LoadOptions& options = {},
                                               const Context& context = default_context()) {
  return detail::load_state_async(path, Request(detail::state_name(), into(object)), options, context);
}

}  // namespace cairn
