// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/core/any_value.hpp"
#include "cairn/core/checkpointable.hpp"
#include "cairn/core/context.hpp"
#include "cairn/core/registry.hpp"
#include "cairn/observe/report.hpp"

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
  Timeout deadline;
  /// Return before the blocking phase has run, which then runs on the context's threads: the caller must not touch its values
  /// until `staged`. On the context's own threads values must be moved in, or shared.
  bool return_when_accepted = false;
  /// Takes a trace of this save; see TraceSink. Null: none is made, which costs nothing.
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

/// A save in flight.
///
/// Its end has three events, in this order:
///   answered  `wait` and `committed` return or throw; what they say stays true.
///   released  nothing of the save touches the caller's memory any more.
///   done      nothing of it runs.
/// A save that was stopped, and whose handlers or system calls do not end, is answered within ContextOptions::stop_grace all
/// the same. With Snapshot::borrow, and in calls that have no response to give, `answered` waits for `released`.
///
/// A response that is destroyed or assigned to before the save has released the caller's memory (before `staged` with
/// Snapshot::copy, before the end with borrow) stops the save and waits for that. Any other may be dropped: the save goes on,
/// and a failure that nobody waited for goes to the context.
/// Threads: every method may be called from any thread; those that wait, not from one of the context's own.
class AsyncResponse {
 public:
  /// Refers to no save: waiting for it returns at once.
  AsyncResponse() = default;
  explicit AsyncResponse(std::shared_ptr<core::SaveJob> job) : job_(std::move(job)) {}
  ~AsyncResponse();
  AsyncResponse(AsyncResponse&&) noexcept = default;
  AsyncResponse& operator=(AsyncResponse&& other) noexcept;

  /// Blocks until the checkpoint is durable and visible; rethrows what went wrong. May be called again.
  ///
  /// Errors: Errc::invalid_argument on one of the context's own threads, which would wait for itself.
  SaveResult wait() const;
  /// As above, for `timeout` at most.
  ///
  /// Errors: Errc::still_running; the save goes on, and nothing has been promised.
  SaveResult wait(Timeout timeout) const;
  /// Blocks until nothing of the save touches the caller's memory any more; says nothing of how it ended.
  void wait_released() const;
  /// Blocks until nothing of it runs.
  void wait_done() const;

  /// Awaits the end of the blocking phase, on the caller's executor.
  ///
  /// Cancel: stops waiting. Of a save that has not released the caller's memory yet it stops the save, too, and ends when
  ///         that is released.
  [[nodiscard]] Awaitable<> staged() const;
  /// Awaits durability, on the caller's executor.
  /// Cancel: as `staged`.
  [[nodiscard]] Awaitable<SaveResult> committed() const;
  /// Awaits `released`, and `done`; say nothing of how the save ended.
  /// Cancel: stops waiting.
  [[nodiscard]] Awaitable<> released() const;
  [[nodiscard]] Awaitable<> done() const;

  [[nodiscard]] bool is_staged() const;
  [[nodiscard]] bool is_released() const;
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] SaveProgress progress() const;

  /// Asks the save to stop: it then fails with Errc::cancelled and never becomes visible, unless it was past the
  /// point of no return and commits. Does not wait.
  void cancel() const;

 private:
  void let_go() noexcept;
  void report_if_lost() noexcept;

  std::shared_ptr<core::SaveJob> job_;
};

}  // namespace cairn
