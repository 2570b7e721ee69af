// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/some_ranks.hpp"

#include "async/internal/event.hpp"
#include "async/internal/task_group.hpp"
#include "core/caller_memory.hpp"
#include "core/deadlines.hpp"
#include "core/failures.hpp"
#include "core/lifecycle.hpp"
#include "core/operation_stats.hpp"
#include "core/services.hpp"
#include "staging/internal/data_plane.hpp"

namespace cairn::core {

/// Which thread runs the blocking phase.
enum class BlockingPhase : std::uint8_t {
  by_caller,   ///< The one that called, in `drive`.
  by_context,  ///< Those of the context.
};

/// A save or a load in flight: its strand, and the order in which things happen to it.
///
/// Each of its parts decides one thing: CallerMemory, how long it has the caller's memory; Lifecycle, how far it has
/// come, and why it was asked to stop; Deadlines, what happens at a certain time; OperationStats, what it has done.
///
/// It is prepared, answered and done in this order; of one that fails, the caller's memory may be released before its
/// answer. Where memory is used without a copy, and where the blocking phase is the caller's, `answered` waits for
/// `released`. An operation that is stopped and does not end within the grace is given up: it is answered without its
/// end, and what handlers have left to do is destroyed, not run.
/// Threads: every public method may be called from any thread.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  struct Kind {
    Kind(CallerMemoryUse of_caller, BlockingPhase who) : memory(of_caller), blocking(who) {}

    CallerMemoryUse memory;
    BlockingPhase blocking;
  };

  /// `begin` is when the caller called; `trace` may be null.
  Operation(std::shared_ptr<Services> services, std::string title, observe::Meter::TimePoint begin,
            TraceSink trace, Kind kind);
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Runs `work` on the strand; the operation lives until it has ended. Without an end by `deadline` (zero: none) it is
  /// stopped.
  void launch(Awaitable<> work, std::chrono::nanoseconds deadline);

  /// The caller's part of an operation whose blocking phase it runs: returns once it is prepared, or has failed and
  /// no longer touches the caller's memory. Between its parts the thread is lent to the coordinator, where that needs
  /// it.
  void drive() noexcept;

  /// Asks the work to stop, and says why. When it does not end within the grace, the operation is answered without it.
  void stop(Errc reason, std::string_view why) noexcept;
  /// The same because another rank, or the session with the others, has failed; `elsewhere` is that failure.
  void stop_because(const std::exception_ptr& elsewhere) noexcept;

  [[nodiscard]] const async::Event& prepared() const noexcept { return lifecycle_.prepared(); }
  [[nodiscard]] const async::Event& decided() const noexcept { return lifecycle_.decided(); }
  [[nodiscard]] const async::Event& answered() const noexcept { return lifecycle_.answered(); }
  [[nodiscard]] const async::Event& told() const noexcept { return lifecycle_.told(); }
  [[nodiscard]] const async::Event& done() const noexcept { return lifecycle_.done(); }
  [[nodiscard]] bool is_done() const { return lifecycle_.is_done(); }
  /// Happens when nothing of it touches the caller's memory any more.
  [[nodiscard]] const async::Event& released() const noexcept;

  /// Returns whether the calling thread runs part of this operation, one of its handlers included, or
  /// delivers its answer. Such a thread must not wait for its end.
  [[nodiscard]] bool runs_here() const noexcept;

  /// Says whether the caller has seen, or has asked for, how it ended.
  std::atomic<bool> is_observed{false};

  /// The last response to it was dropped.
  virtual void let_go() noexcept {}

  /// "save of <path>": for messages.
  [[nodiscard]] const std::string& title() const noexcept { return title_; }
  /// Returns what it waits for at this moment, as far as it knows: for messages.
  [[nodiscard]] std::string waits_for() const;
  [[nodiscard]] Services& services() const noexcept { return *services_; }
  [[nodiscard]] const std::shared_ptr<Services>& services_owner() const noexcept { return services_; }
  [[nodiscard]] const OperationStats& stats() const noexcept { return stats_; }
  [[nodiscard]] observe::Meter& meter() const noexcept { return stats_.meter(); }
  /// The context's, measured.
  [[nodiscard]] io::Engine& engine() const noexcept { return stats_.engine(); }
  /// Tasks concurrent with the main work, on a strand of their own: those that move bytes.
  [[nodiscard]] async::TaskGroup& helpers() const noexcept { return *helpers_; }

  /// Returns what its files are written and read with.
  [[nodiscard]] staging::DataPlane& plane() noexcept { return plane_; }
  [[nodiscard]] const staging::DataPlane& plane() const noexcept { return plane_; }

  /// Runs system calls that may block, on threads that nobody else waits for.
  [[nodiscard]] Awaitable<> run_call(std::function<void()> work) const;

  [[nodiscard]] bool is_stopped() const { return lifecycle_.is_stopped(); }
  /// Returns what waiters are told of a failure, see Lifecycle::explain; for null: why it was stopped.
  [[nodiscard]] std::exception_ptr explain(const std::exception_ptr& failure) const {
    return failure ? lifecycle_.explain(failure) : std::make_exception_ptr(lifecycle_.reason());
  }

 protected:
  /// Returns whether it was answered without its end.
  [[nodiscard]] bool is_given_up() const noexcept { return lifecycle_.is_given_up(); }

  /// Where code of handlers runs; given up as a whole when the memory of its phase is given back.
  [[nodiscard]] const Executor& blocking_lane() const noexcept { return blocking_lane_; }
  [[nodiscard]] const Executor& background_lane() const noexcept { return background_lane_; }
  /// Runs what handlers do in one phase, all at once; throws what went wrong as one failure.
  static Awaitable<> run_phase(Executor lane, std::vector<Awaitable<>> tasks);

  /// Notes whether code of handlers runs, which may keep the caller's thread for as long as it likes: where
  /// the coordinator needs that thread, this rank tells the others that it may be silent. Called on the
  /// strand.
  void set_callers_thread_busy(bool is_busy) noexcept;

  /// Makes `prepared` happen, and lets the caller go. What follows on the strand is the context's to run after
  /// `leave_caller`.
  void mark_prepared();
  /// Goes on when the caller's thread is not the one that runs the strand.
  [[nodiscard]] static Awaitable<> leave_caller();
  /// From here on nothing of it begins to touch the caller's memory.
  void give_memory_back() const noexcept { caller_memory_.give_back(); }

  /// Counts the end of the operation for the context, before anybody is told.
  virtual void count_end(const std::exception_ptr& failure) = 0;

  /// From here on it must not take effect.
  virtual void refuse_effect() noexcept {}
  /// The other ranks for which it waits at this moment.
  [[nodiscard]] virtual SomeRanks missing_ranks() const { return {}; }
  /// Returns what waiters are told when the operation has not ended within the grace; `reason` says why it
  /// was stopped.
  [[nodiscard]] virtual std::exception_ptr verdict_without_end(const Error& reason);
  /// Releases what later operations wait for; called before this one is answered.
  virtual void make_way() noexcept {}
  /// Nothing of it runs any more; called before `done`.
  virtual void clear_up() noexcept {}

  /// Cancels the helpers and waits for them. To be awaited before anything that they use is destroyed.
  [[nodiscard]] Awaitable<> stop_helpers() const;

 private:
  [[nodiscard]] staging::DataPlane make_plane() const;
  static Awaitable<> run_to_end(std::shared_ptr<Operation> self, Awaitable<> work);

  void give_up() noexcept;
  /// Answers it, once.
  void finish(const std::exception_ptr& failure) noexcept;
  void tell(const std::exception_ptr& failure) const noexcept;
  void end(const std::exception_ptr& failure) noexcept;

  const std::shared_ptr<Services> services_;
  const std::string title_;
  const BlockingPhase blocking_;
  const OperationStats stats_;
  const Executor strand_;
  const Executor
      data_strand_;  // Of what moves bytes, and holds what other operations wait for: no handler's code.
  const CallerMemory caller_memory_;
  const Executor blocking_lane_;
  const Executor background_lane_;
  std::atomic<bool> is_callers_thread_busy_{false};
  const std::shared_ptr<async::TaskGroup> main_;
  const std::shared_ptr<async::TaskGroup> helpers_;
  Lifecycle lifecycle_;
  Deadlines deadlines_;
  staging::DataPlane plane_;
};

}  // namespace cairn::core
