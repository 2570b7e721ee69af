// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/contract/any_value.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/core/context.hpp"
#include "cairn/core/response.hpp"
#include "cairn/observe/report.hpp"

namespace cairn {

namespace core {
class SaveJob;
}

/// Makes a save return without blocking; see SaveOptions::return_when_accepted.
struct ReturnWhenAccepted {
  explicit ReturnWhenAccepted() = default;
};

inline constexpr ReturnWhenAccepted return_when_accepted{};

struct SaveOptions {
  SaveOptions() = default;
  SaveOptions(ReturnWhenAccepted) : return_when_accepted(true) {}  // NOLINT: implicit, as an argument.

  /// Replace an existing checkpoint instead of failing. The old one stays until the new one is durable.
  bool overwrite = false;
  /// How many levels of missing directories above the checkpoint may be made: 1 makes the root of a run's
  /// checkpoints, and leaves a mistyped longer path an error, which names the first directory that is missing. With
  /// several ranks rank 0 makes them. A save that fails removes those that it made and that are empty.
  unsigned create_parents = 1;
  /// Called with `overwrite` right before the existing checkpoint is replaced; until that is done no pin can be set
  /// on it. What it throws fails the save, as a failure of a handler does, and leaves the old one. On a thread of the
  /// context's, of rank 0; must not wait for the context. Empty: nobody is asked.
  std::function<void()> before_replacing;
  /// A JSON text kept with the checkpoint, for people and tools; read back without touching data.
  std::string custom_metadata = "null";
  /// A JSON text, an object with a member for each program on top that keeps something of the checkpoint to find it
  /// by ("cairn.training": its step and metrics). Listings give it back without opening anything else.
  std::string annotations = "{}";
  /// With several ranks, values that are not sharded are saved as rank 0 has them. Where another one has others,
  /// SaveResult::problems names leaves and ranks; with this the save fails with Errc::ranks_differ instead.
  bool ranks_must_agree = false;
  /// Leaves that may differ, of which nothing is said: patterns of their paths, as those of ArrayRules. Random engines
  /// may always.
  std::vector<std::string> may_differ;
  /// Says who keeps the values unchanged; see Snapshot. `borrow` and `share` save the copy and the memory for
  /// it.
  Snapshot snapshot = Snapshot::copy;
  /// Give way to later saves into the same directory that say so, too: of those under way the oldest, the newest and
  /// those that commit already go on, the others end with Errc::superseded (which `close` does not count as a failure).
  /// For programs that save more often than their disk can follow.
  bool coalesce = false;
  /// From the call to `committed`; afterwards the save fails with Errc::timed_out. Zero: no limit.
  Timeout deadline;
  /// Of several ranks: how long this one waits for others that have not come, before all fail with Errc::peer_failed.
  /// Zero: as CoordinatorOptions::join_timeout.
  Timeout join_timeout;
  /// Return before the blocking phase has run, which then runs on the context's threads: the caller must not touch
  /// its values until `staged`. On the context's own threads values must be moved in, or shared.
  bool return_when_accepted = false;
  /// Takes a trace of this save; see TraceSink. Null: none is made, which costs nothing.
  TraceSink trace;
  /// What handlers look for, by type (ArrayOptions, say).
  OptionSet handler_options;
  /// Handlers on top of those of the context, for this save only.
  HandlerRegistry registry;
};

/// How far a save has come.
struct SaveProgress {
  std::uint64_t total_bytes = 0;  ///< Grows while handlers announce their files.
  std::uint64_t staged_bytes = 0;
  std::uint64_t written_bytes = 0;
};

/// A save in flight; core::Response says how it ends.
///
/// Its memory is released at `staged` with Snapshot::copy, at the end with borrow. A failure that nobody waited for
/// goes to the context.
class AsyncResponse : public core::Response {
 public:
  /// Refers to no save: waiting for it returns at once.
  AsyncResponse() = default;
  explicit AsyncResponse(std::shared_ptr<core::SaveJob> job) noexcept;

  /// Blocks until the checkpoint is durable and visible; rethrows what went wrong. May be called again.
  ///
  /// Errors: Errc::invalid_argument on one of the context's own threads, which would wait for itself.
  SaveResult wait() const;
  /// As above, for `timeout` at most.
  ///
  /// Errors: Errc::still_running; the save goes on, and nothing has been promised.
  SaveResult wait(Timeout timeout) const;

  /// Blocks until the blocking phase is over: with Snapshot::copy the caller may change the values from here on.
  /// Returns at once unless the save was to return_when_accepted. May be called again.
  ///
  /// Errors: what the save failed with before; the values may still be read then, until wait_released. As wait.
  /// Example: const auto saving = cairn::save_async(path, state, cairn::return_when_accepted);
  ///          const auto gradients = forward_and_backward(state);  // Reads the state during the copy.
  ///          saving.wait_staged();                                // Wait before you first write.
  ///          step(state, gradients);
  void wait_staged() const;
  /// As above, for `timeout` at most.
  ///
  /// Errors: Errc::still_running; the save goes on, and the values must not be changed.
  void wait_staged(Timeout timeout) const;

  /// Awaits the end of the blocking phase, on the caller's executor.
  ///
  /// Cancel: stops waiting. If the caller's memory is not yet released, also stops the save, and waits until it is
  ///         released.
  [[nodiscard]] Awaitable<> staged() const;
  /// Awaits durability, on the caller's executor.
  /// Cancel: as `staged`.
  [[nodiscard]] Awaitable<SaveResult> committed() const;

  [[nodiscard]] bool is_staged() const;
  [[nodiscard]] SaveProgress progress() const;
};

}  // namespace cairn
