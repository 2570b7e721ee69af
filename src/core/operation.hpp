// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "async/internal/event.hpp"
#include "async/internal/gate.hpp"
#include "async/internal/limited_pool.hpp"
#include "async/internal/task_group.hpp"
#include "async/internal/timers.hpp"
#include "core/failures.hpp"
#include "core/services.hpp"
#include "observe/internal/metered_engine.hpp"
#include "staging/internal/data_plane.hpp"

namespace cairn::core {

/// How long an operation touches memory that is the caller's.
enum class CallersMemory : std::uint8_t {
  unused,        ///< All that it needs was moved into it, or is shared.
  until_staged,  ///< The blocking phase reads it.
  until_done,    ///< Nothing is copied: it is read, or written, to the end.
};

/// Which thread runs the blocking phase.
enum class BlockingPhase : std::uint8_t {
  by_caller,   ///< The one that called, in `drive`.
  by_context,  ///< Those of the context.
};

/// A save or a load in flight: its strand, its deadline, and what is known of its end.
///
/// Events, in this order; each happens once:
///   prepared  the blocking phase is over (or there will be no end of it);
///   answered  everybody may know how it ended;
///   released  nothing of it touches the caller's memory any more; of one that fails, this may come before its answer;
///   done      nothing of it runs.
/// Where memory is used without a copy, and where the blocking phase is the caller's, `answered` waits for `released`.
/// An operation that is stopped and does not end within the grace is given up: it is answered without its end, and what
/// handlers have left to do is destroyed, not run.
/// Threads: every public method may be called from any thread.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  struct Kind {
    Kind(CallersMemory of_caller, BlockingPhase who) : memory(of_caller), blocking(who) {}

    CallersMemory memory;
    BlockingPhase blocking;
  };

  /// `begin` is when the caller called; `trace` may be null.
  Operation(std::shared_ptr<Services> services, std::string title, observe::Meter::TimePoint begin,
            TraceSink trace, Kind kind);
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Runs `work` on the strand. Without an end by `deadline` (zero: none) it is stopped.
  void launch(Awaitable<> work, std::chrono::nanoseconds deadline);

  /// The caller's part of an operation whose blocking phase he runs: returns once it is prepared, or has failed and touches
  /// his memory no more.
  void drive() noexcept;

  /// Asks the work to stop, and says why. When it does not end within the grace, the operation is answered without it.
  void stop(Errc reason, std::string why) noexcept;

  [[nodiscard]] const async::Event& prepared() const noexcept { return prepared_; }
  [[nodiscard]] const async::Event& answered() const noexcept { return answered_; }
  [[nodiscard]] const async::Event& released() const noexcept;
  [[nodiscard]] const async::Event& done() const noexcept { return done_; }
  /// Happens when it is clear what the answer will be; it may have to wait for `released`.
  [[nodiscard]] const async::Event& decided() const noexcept { return decided_; }
  /// Happens when all who listened have heard the answer.
  [[nodiscard]] const async::Event& told() const noexcept { return told_; }
  /// Whether it is done, or was answered by its end: then nothing of it is left but the telling.
  [[nodiscard]] bool is_done() const;

  /// Whether somebody has seen, or has asked for, the way in which it ended.
  std::atomic<bool> is_observed{false};

  /// "save of <path>": for messages.
  [[nodiscard]] const std::string& title() const noexcept { return title_; }
  [[nodiscard]] Services& services() const noexcept { return *services_; }
  [[nodiscard]] const std::shared_ptr<Services>& services_owner() const noexcept { return services_; }
  [[nodiscard]] observe::Meter& meter() const noexcept { return *meter_; }
  /// The context's, measured.
  [[nodiscard]] io::Engine& engine() const noexcept { return *engine_; }
  /// Tasks beside the main work: those that move chunks.
  [[nodiscard]] async::TaskGroup& helpers() const noexcept { return *helpers_; }
  /// What its files are written and read with.
  [[nodiscard]] staging::DataPlane& plane() const noexcept { return *plane_; }

  /// Runs system calls that may block, on threads that nobody else waits for.
  [[nodiscard]] Awaitable<> run_call(std::function<void()> work) const;
  /// Runs code of a handler, which may do either.
  [[nodiscard]] Awaitable<> run_users(std::function<void()> work) const;

 protected:
  /// Whether it was asked to stop.
  [[nodiscard]] bool is_stopped() const;
  /// Where code of handlers runs: given up as a whole.
  [[nodiscard]] const Executor& blocking_lane() const noexcept { return blocking_lane_; }
  [[nodiscard]] const Executor& background_lane() const noexcept { return background_lane_; }

  /// Makes `prepared` happen, and lets the caller go. What follows on the strand is the context's to run after
  /// `leave_caller`.
  void mark_prepared();
  /// Nothing of it touches the caller's memory from here on: `released` happens as soon as those inside have left.
  void give_memory_back() noexcept;
  /// Goes on when the caller's thread is not the one that runs the strand.
  [[nodiscard]] static Awaitable<> leave_caller();

  /// Counts the end of the operation for the context, before anybody is told.
  virtual void count_end(const std::exception_ptr& failure) = 0;

  /// From here on it must not take effect.
  virtual void refuse_effect() noexcept {}
  /// What to tell whoever waits for an operation that has not ended within the grace; `reason` says why it was stopped.
  [[nodiscard]] virtual std::exception_ptr verdict_without_end(const Error& reason);
  /// Lets others go on that wait for this one to be answered; called before that.
  virtual void make_way() noexcept {}
  /// Nothing of it runs any more; called before `done`.
  virtual void clear_up() noexcept {}

  /// Fills in what all operations measure. Takes no memory.
  void fill_numbers(Report& report) const;
  /// Fills in the engine, and appends what was done in another way than was asked for.
  void fill_words(Report& report) const;

  /// Gives the trace to its sink, if there is one. Returns what went wrong; empty when nothing did.
  [[nodiscard]] std::string deliver_trace() const noexcept;

  /// Ends the helpers, however they stand. To be awaited before anything that they use goes away.
  [[nodiscard]] Awaitable<> stop_helpers() const;

 private:
  [[nodiscard]] std::unique_ptr<staging::DataPlane> make_plane() const;
  static Awaitable<> run_to_end(std::shared_ptr<Operation> self, Awaitable<> work);

  /// Starts `call` at `when`, on a thread that may take its time.
  void call_at(observe::Meter::TimePoint when, void (*call)(Operation&));
  void give_up();
  /// Decides how it ended; the first call counts.
  void finish(std::exception_ptr failure) noexcept;
  void tell(const std::exception_ptr& failure) noexcept;
  void end(std::exception_ptr failure) noexcept;
  [[nodiscard]] std::exception_ptr explain(std::exception_ptr failure);
  [[nodiscard]] Error reason() const;

  std::shared_ptr<Services> services_;
  std::string title_;
  std::chrono::nanoseconds deadline_{0};
  Kind kind_;
  std::shared_ptr<observe::Meter> meter_;
  std::shared_ptr<observe::MeteredEngine> engine_;
  async::LimitedPool calls_;
  async::LimitedPool background_;
  Executor strand_;
  async::Gate blocking_gate_;
  async::Gate background_gate_;  // The same where memory is the caller's to the end.
  Executor blocking_lane_;
  Executor background_lane_;
  std::shared_ptr<async::TaskGroup> main_;
  std::shared_ptr<async::TaskGroup> helpers_;
  const async::Event nothing_used_ = async::Event::happened();
  async::Event prepared_;
  async::Event answered_;
  async::Event decided_;
  async::Event told_;
  async::Event done_;
  std::unique_ptr<staging::DataPlane> plane_;
  std::atomic<bool> is_finished_{false};
  std::atomic<bool> is_given_up_{false};
  mutable std::mutex mutex_;  // Protects what follows.
  bool is_stopped_ = false;
  std::optional<Error> reason_;
  std::vector<async::Timers::Id> timers_;
};

/// Whether the calling thread is one of the context's, or runs the blocking phase of one of its operations: then nothing of
/// that context may be waited for.
[[nodiscard]] bool is_busy_here(const Services& services) noexcept;

/// Errors: Errc::invalid_argument, always; `what` as below.
[[noreturn]] void throw_waits_for_itself(std::string_view what);

/// Errors: Errc::invalid_argument when `is_busy_here`; `what` is what was tried: "a load".
void refuse_here(const Services& services, std::string_view what);

}  // namespace cairn::core
