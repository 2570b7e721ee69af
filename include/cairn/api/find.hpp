// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/api/context.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/core/context.hpp"
#include "cairn/core/load.hpp"
#include "cairn/store/reports.hpp"

// Finding the checkpoints of a directory. `recover` (cairn/api/maintain.hpp) cleans it.
//
// Functions that end in `_async` are for coroutines: what they return is awaited, on any executor, and what blocks
// runs on the context's threads. They take copies of their arguments at the call, begin when they are awaited, and
// deadlines count from there. The context must be there then.
// Cancel: stops waiting; what the disk is asked for goes on, and is dropped.

namespace cairn {

using store::CheckpointOrder;
using store::FoundCheckpoint;
using store::NumbersInNames;

struct ListOptions : store::ListOptions {
  ListOptions() = default;

  /// From the call to its end; afterwards it comes back with Errc::timed_out, and may go on reading. Zero: no limit.
  Timeout deadline;
};

/// The checkpoints of the directory `root`, the oldest first: those that can be loaded or, where `options` say so,
/// also what is damaged, displaced, being written or left by crashes, with its class and what is wrong with it. Looks
/// at each once and reads no data; changes nothing.
///
/// Things of others in the directory are left out: files, links, directories that are not checkpoints.
/// Threads: safe, also while others save there and remove.
/// Errors:  Errc::not_found (no such directory), Errc::invalid_argument (`root` is a checkpoint itself),
///          Errc::timed_out; OS errors on the directory itself: ENOTDIR where it is a file.
/// Example: for (const cairn::FoundCheckpoint& each : cairn::list_checkpoints("run")) { … each.name … each.path … }
[[nodiscard]] std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& root,
                                                            const ListOptions& options = {},
                                                            const Context& context = default_context());
/// The same, to be awaited.
[[nodiscard]] Awaitable<std::vector<FoundCheckpoint>> list_checkpoints_async(
    const std::filesystem::path& root, const ListOptions& options = {},
    const Context& context = default_context());

struct LatestOptions {
  LatestOptions() = default;

  /// The order in which one is the newest. By name "10" is newer than "9", and a name without a number is not the
  /// newest where another has one. Names that differ in more than their numbers ("step-10" and "step-10-best") are an
  /// error.
  CheckpointOrder order = CheckpointOrder::by_name;
  /// How the numbers in names are read. Unset: both readings must name the same newest one; of "0.1", "0.15" and "0.2"
  /// they do not, and that is an error.
  std::optional<NumbersInNames> numbers;
  /// Takes the name of a checkpoint to its number: the newest is the one with the highest, and those without are left
  /// out. Null: `order` decides. Called on the calling thread, and by latest_checkpoint_async on the executor that
  /// awaits it.
  std::function<std::optional<std::uint64_t>(std::string_view name)> number;
  /// As ListOptions::deadline.
  Timeout deadline;
};

/// The newest checkpoint of the directory `root` that can be loaded, as far as can be told without reading data;
/// nothing when there is none. `root` itself may be missing where the directory above it is there: nothing was saved
/// yet.
///
/// Threads: as list_checkpoints.
/// Errors:  as list_checkpoints; Errc::invalid_argument where names do not tell which is the newest
///          (LatestOptions::order, LatestOptions::numbers).
/// Example: if (const auto newest = cairn::latest_checkpoint("run")) { state = cairn::load(newest->path); }
[[nodiscard]] std::optional<FoundCheckpoint> latest_checkpoint(const std::filesystem::path& root,
                                                               const LatestOptions& options = {},
                                                               const Context& context = default_context());
/// The same, to be awaited.
[[nodiscard]] Awaitable<std::optional<FoundCheckpoint>> latest_checkpoint_async(
    const std::filesystem::path& root, const LatestOptions& options = {},
    const Context& context = default_context());

struct IsCheckpointOptions {
  IsCheckpointOptions() = default;

  /// As ListOptions::deadline.
  Timeout deadline;
};

/// Returns whether there is a checkpoint at `path` whose COMMIT, manifest and sizes of files agree: one that
/// can be loaded, as far as can be told without reading data. False for anything else, and for nothing.
///
/// Threads: safe.
/// Errors:  Errc::unsupported_version (a checkpoint of a later format), Errc::timed_out; what the operating system
///          says when it cannot be told.
[[nodiscard]] bool is_checkpoint(const std::filesystem::path& path, const IsCheckpointOptions& options = {},
                                 const Context& context = default_context());
/// The same, to be awaited.
[[nodiscard]] Awaitable<bool> is_checkpoint_async(const std::filesystem::path& path,
                                                  const IsCheckpointOptions& options = {},
                                                  const Context& context = default_context());

struct LoadLatestOptions {
  LoadLatestOptions() = default;

  /// How to load; the deadline is that of the whole call.
  LoadOptions load;
  /// As LatestOptions::order.
  CheckpointOrder order = CheckpointOrder::by_name;
  /// As LatestOptions::numbers; with `fall_back` both readings must have all in the same order.
  std::optional<NumbersInNames> numbers;
  /// Takes the name of a checkpoint to its number: the newest is the one with the highest, and those without are left
  /// out. Null: `order` decides. Called on the calling thread, and by load_latest_async on the executor that awaits
  /// it.
  std::function<std::optional<std::uint64_t>(std::string_view name)> number;
  /// Load the next older one that is sound when the newest is damaged. Off: that is an error, as a program that goes on
  /// from an older state, and saves, should know it.
  bool fall_back = false;
};

/// A checkpoint that was not loaded, though it is newer than the one that was.
struct PassedOver {
  std::filesystem::path path;
  std::error_code code;
  std::string why;  ///< Names the file.
};

/// Holds what load_latest has loaded.
struct LoadedLatest {
  FoundCheckpoint checkpoint;
  Loaded loaded;
  std::vector<PassedOver> passed_over;  ///< The newest first; empty without LoadLatestOptions::fall_back.
};

/// Loads the newest checkpoint of the directory `root`, as load_checkpointables does; nothing when there is none.
/// `root` itself may be missing where the directory above it is there: nothing was saved yet.
///
/// A newest one that is damaged is an error or, with LoadLatestOptions::fall_back, passed over; `passed_over` of the
/// result says why. What is wrong with the request (a name that the checkpoint does not have, another shape) is an
/// error in any case. So is what the operating system refuses (EACCES, EMFILE), as it says nothing of the checkpoint:
/// only EIO and EUCLEAN are damage.
/// Ownership: as load_checkpointables. Objects loaded into may hold parts of several checkpoints when the call throws.
/// Threads:   safe, also while others save there and remove; not from one of the context's own threads.
/// Errors:    as latest_checkpoint and load_checkpointables; Errc::not_committed (the newest one is displaced:
///            `recover` puts it back). With `fall_back`, where none can be loaded: that of the newest, saying also
///            what is wrong with those before it. Errc::timed_out.
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
/// Example:   auto latest = co_await cairn::load_latest_async("run");
///            if (latest) { state = latest->loaded.take<cairn::Tree>("state"); }
[[nodiscard]] Awaitable<std::optional<LoadedLatest>> load_latest_async(
    const std::filesystem::path& root, const Requests& requests = {}, const LoadLatestOptions& options = {},
    const Context& context = default_context());

}  // namespace cairn
