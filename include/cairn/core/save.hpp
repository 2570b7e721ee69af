// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "cairn/async/awaitable.hpp"
#include "cairn/core/checkpointable.hpp"
#include "cairn/core/context.hpp"
#include "cairn/core/option_set.hpp"
#include "cairn/core/registry.hpp"
#include "cairn/core/report.hpp"
#include "cairn/core/trace.hpp"

namespace cairn {

namespace core {
class SaveJob;
}

/// Says that a save shall not block at all; see SaveOptions::return_when_accepted.
struct ReturnWhenAccepted {
  explicit ReturnWhenAccepted() = default;
};

inline constexpr ReturnWhenAccepted return_when_accepted{};

struct SaveOptions {
  SaveOptions() = default;
  SaveOptions(ReturnWhenAccepted) : return_when_accepted(true) {}  // NOLINT: implicit, as an argument.

  /// Replace an existing checkpoint instead of failing. The old one stays until the new one is durable.
  bool overwrite = false;
  /// A JSON text kept with the checkpoint, for people and tools; read back without touching data.
  std::string custom_metadata = "null";
  /// Who keeps the values unchanged; see Snapshot. `borrow` and `share` save the copy and the memory for it.
  Snapshot snapshot = Snapshot::copy;
  /// Give way to later saves into the same directory that say so, too: of those under way the oldest and the newest
  /// go on, the others end with Errc::superseded (which `close` does not count as a failure). For programs that
  /// save more often than their disk can follow.
  bool coalesce = false;
  /// From the call to `committed`; afterwards the save fails with Errc::timed_out. Zero: no limit.
  std::chrono::nanoseconds deadline{0};
  /// Return before the blocking phase has run: the caller must not touch its values until `staged`.
  bool return_when_accepted = false;
  /// Takes a trace of this save; see trace.hpp. Null: none is made, which costs nothing.
  TraceSink trace;
  /// What handlers look for, by type (ArrayOptions, say).
  OptionSet handler_options;
};

/// How far a save has come.
struct SaveProgress {
  std::uint64_t total_bytes = 0;  ///< Grows while handlers announce their files.
  std::uint64_t staged_bytes = 0;
  std::uint64_t written_bytes = 0;
};

/// A save in flight. Dropping it does not stop the save; a failure that nobody waited for goes to the context.
///
/// Threads: every method may be called from any thread.
class AsyncResponse {
 public:
  /// Refers to no save: waiting for it returns at once.
  AsyncResponse() = default;
  explicit AsyncResponse(std::shared_ptr<core::SaveJob> job) : job_(std::move(job)) {}
  ~AsyncResponse();
  AsyncResponse(AsyncResponse&&) noexcept = default;
  AsyncResponse& operator=(AsyncResponse&& other) noexcept;

  /// Blocks until the checkpoint is durable and visible; rethrows what went wrong. May be called again.
  SaveResult wait() const;
  /// As above, for `timeout` at most.
  ///
  /// Errors: Errc::timed_out; the save goes on.
  SaveResult wait(std::chrono::nanoseconds timeout) const;

  /// Awaits the end of the blocking phase, on the caller's executor.
  [[nodiscard]] Awaitable<> staged() const;
  /// Awaits durability, on the caller's executor.
  [[nodiscard]] Awaitable<SaveResult> committed() const;

  [[nodiscard]] bool is_staged() const;
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] SaveProgress progress() const;

  /// Asks the save to stop: it then fails with Errc::cancelled and leaves nothing, unless it was past the
  /// point of no return and commits. Does not wait.
  void cancel() const;

 private:
  void report_if_lost() noexcept;

  std::shared_ptr<core::SaveJob> job_;
};

namespace core {

/// Starts a save; returns at `staged` unless `options` say otherwise.
///
/// Errors: before anything is written: Errc::invalid_argument (names, temporaries that are borrowed, custom
///         metadata), Errc::already_exists (a name given twice, an existing target), Errc::no_handler;
///         what the blocking phase throws, with the checkpointable named.
AsyncResponse start_save(const std::filesystem::path& path, const Checkpointables& items,
                         const RegistrySnapshot& registry, const SaveOptions& options,
                         const Context& context);

}  // namespace core
}  // namespace cairn
