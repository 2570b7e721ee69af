// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// Takes the trace of one save or load: JSON in Chrome's trace event format, for ui.perfetto.dev.
///
/// There is a row for the steps, one for each thread that copied, hashed or verified, and as many for
/// requests as were in flight. Times are those of the steady clock: traces of a process fit together.
/// Threads: called once, on a worker thread, before the operation is done, also when it failed. For an
///          operation that was given up, because a handler would not stop: later, or never.
/// Errors:  what it throws becomes a problem in the result, or a part of the failure's text: it never fails a
///          checkpoint.
using TraceSink = std::function<void(std::string_view json)>;

/// Writes the trace into a file, replacing what was there.
///
/// Errors: Errc::invalid_argument when the path is empty or holds a NUL; of the sink: OS errors.
[[nodiscard]] TraceSink trace_to_file(std::filesystem::path path);

/// The steps of a save and of a load, in their order. One follows the other: their times add up to all.
enum class Step : std::uint8_t {
  resolve,           ///< Save: names checked, handlers found.
  stage,             ///< Save: temporary folder made, blocking phases of the handlers. Ends at `staged`.
  background,        ///< Save: background phases: what is left of writing, hashes, one sync for each file.
  read_back,         ///< Save: files that handlers wrote without the context, read, hashed and synced.
  describe,          ///< Save: `chunks.xxh3`, `checkpoint.json` and `COMMIT` written and synced.
  sync_directories,  ///< Save: every folder, innermost first.
  rename,            ///< Save: the checkpoint becomes visible.
  sync_parent,       ///< Save: the new name becomes durable.
  retire,            ///< Save: what was replaced is removed. Then comes `committed`.
  find,              ///< Load: manifest read and checked, handlers found.
  plan,              ///< Load: blocking phases of the handlers.
  fetch,             ///< Load: background phases: data read, verified, put in place.
};

inline constexpr std::size_t kSteps = 12;

/// Kinds of work. Several go on at the same time, on several threads: their times overlap.
enum class Work : std::uint8_t {
  create,   ///< Files made, with room for what they will hold.
  copy,     ///< From the caller's memory into staging memory.
  hash,     ///< XXH3 of what is written.
  write,    ///< Requests to write, from submission to completion.
  sync,     ///< fdatasync of files.
  open,     ///< Files opened to be read, and their reads planned.
  prepare,  ///< Fresh memory touched before it is read into.
  read,     ///< Requests to read, from submission to completion; copies from the page cache.
  verify,   ///< Hashes of what was read, compared.
  place,    ///< From staging memory to where it belongs, cast on the way.
  handler,  ///< Functions of handlers' own (`SaveContext::run`, `LoadContext::run`).
  divide,  ///< Sharding policies asked, and what they returned checked; the count is that of the files that they made.
};

inline constexpr std::size_t kWorks = 12;

/// "sync_directories", "copy": for reports, metrics and traces.
[[nodiscard]] std::string_view name(Step step) noexcept;
[[nodiscard]] std::string_view name(Work work) noexcept;

struct WorkFigures {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds time{0};  ///< Summed over all that went on at the same time.
};

/// Requests to the I/O engine.
struct TransferFigures {
  std::size_t highest_depth = 0;          ///< Most of them in flight at once.
  double mean_depth = 0;                  ///< While there was any; 0 without reads and writes.
  std::chrono::nanoseconds busy_time{0};  ///< How long there was any.
  std::uint64_t retried = 0;              ///< Interrupted (EINTR, EAGAIN), and asked for again.
  std::uint64_t shortened = 0;            ///< Moved fewer bytes than asked for, and were continued.
};

/// Staging memory, that of other operations at the same time included.
struct PoolFigures {
  std::size_t capacity_bytes = 0;  ///< The byte budget; 0: no limit.
  std::size_t peak_bytes = 0;      ///< Most in use when this operation took some.
  std::uint64_t waits = 0;         ///< How often it had to wait for a buffer.
  std::chrono::nanoseconds wait_time{0};
};

/// The part that reports of saves and of loads have in common.
struct Report {
  Report() = default;

  std::filesystem::path path;
  std::uint64_t bytes = 0;         ///< In those files. A load reads whole chunks, for their hashes.
  std::uint64_t files = 0;         ///< Saved: all but the checkpoint's own three. Loaded: those read from.
  std::uint64_t direct_bytes = 0;  ///< Past the page cache.
  std::string engine;
  std::array<std::chrono::nanoseconds, kSteps> steps{};
  std::array<WorkFigures, kWorks> works{};
  TransferFigures transfers;
  PoolFigures pool;
  /// What was asked for and not to be had, with what was done instead: io_uring, O_DIRECT.
  std::vector<std::string> fallbacks;
  /// What went wrong without harm to the checkpoint: a trace that could not be kept, an old one not removed.
  std::vector<std::string> problems;

  [[nodiscard]] std::chrono::nanoseconds time(Step step) const {
    return steps[static_cast<std::size_t>(step)];
  }
  [[nodiscard]] const WorkFigures& work(Work work) const { return works[static_cast<std::size_t>(work)]; }
};

/// Holds what a sharding policy made of what this process wrote.
struct PolicyFigures {
  std::string description;  ///< What the policy says of itself.
  WorkFigures work;  ///< The files that it made, their bytes, and the time that it took with its check.
};

/// The report of a save.
struct SaveResult : Report {
  SaveResult() = default;

  std::chrono::nanoseconds blocking_time{0};  ///< From the call until the caller was free.
  std::chrono::nanoseconds durable_time{0};   ///< From the call until committed: the sum of all steps.
  std::vector<PolicyFigures> policies;        ///< Each that divided something here, once.

  /// GB/s (10^9 bytes) from the call until committed.
  [[nodiscard]] double rate() const;
};

/// The report of a load.
struct LoadResult : Report {
  LoadResult() = default;

  std::uint64_t cached_bytes = 0;         ///< Copied from the page cache, where the file was already.
  std::chrono::nanoseconds load_time{0};  ///< From the call to the end: the sum of all steps.
  /// The paths of members of structs that are not stored and kept their values (TreeLoadOptions::members_may_differ).
  /// The checkpointable's name comes before the path where several were loaded.
  std::vector<std::string> missing;
  /// The stored keys that are no members, which were left out.
  std::vector<std::string> unexpected;

  /// GB/s (10^9 bytes) from the call to the end.
  [[nodiscard]] double rate() const;
};

/// A few lines for people. `cairn/core/format.hpp` lets {fmt} print results so.
[[nodiscard]] std::string to_text(const SaveResult& result);
[[nodiscard]] std::string to_text(const LoadResult& result);

/// One JSON object for programs; times in seconds, under names that end in `_seconds`.
[[nodiscard]] std::string to_json(const SaveResult& result);
[[nodiscard]] std::string to_json(const LoadResult& result);

}  // namespace cairn
