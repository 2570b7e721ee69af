// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/async/event.hpp"
#include "cairn/async/task_group.hpp"
#include "cairn/base/error.hpp"

#include "core/failures.hpp"
#include "core/metered_engine.hpp"
#include "core/services.hpp"

namespace cairn::core {

/// Memory of the caller's that worker threads read, until it is taken away from them.
class BorrowedMemory {
 public:
  /// Reads it in `work`. Errors: Errc::cancelled when it has been taken away.
  void visit(const std::function<void()>& work);

  /// Lets nobody in any more. Returns whether everybody is out.
  [[nodiscard]] bool close();

 private:
  std::mutex mutex_;
  int visitors_ = 0;
  bool is_closed_ = false;
};

/// A save or a load in flight: its strand, its deadline, its two completion points.
///
/// Invariant: `prepared` (the blocking phase is over) happens before `done`; each happens once.
/// Threads:   every public method may be called from any thread.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  /// `begin` is when the caller called; `trace` may be null.
  Operation(std::shared_ptr<Services> services, std::string title, Meter::TimePoint begin, TraceSink trace);
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Runs `work` on the strand. Without an end by `deadline` (zero: none) it is stopped.
  void launch(Awaitable<> work, std::chrono::nanoseconds deadline);

  /// Asks the work to stop, and says why. When it does not end soon, the operation is done without it.
  void stop(Errc reason, std::string why);

  [[nodiscard]] const async::Event& prepared() const noexcept { return prepared_; }
  [[nodiscard]] const async::Event& done() const noexcept { return done_; }

  /// "save of <path>": for messages.
  [[nodiscard]] const std::string& title() const noexcept { return title_; }
  [[nodiscard]] Services& services() const noexcept { return *services_; }
  [[nodiscard]] const std::shared_ptr<Services>& services_owner() const noexcept { return services_; }
  [[nodiscard]] const Executor& strand() const noexcept { return strand_; }
  [[nodiscard]] Meter& meter() const noexcept { return *meter_; }
  /// The context's, measured.
  [[nodiscard]] io::Engine& engine() const noexcept { return *engine_; }
  /// Tasks beside the main work: those that move chunks.
  [[nodiscard]] async::TaskGroup& helpers() const noexcept { return *helpers_; }

  /// Runs blocking or long work on a worker thread.
  [[nodiscard]] Awaitable<> run(std::function<void()> work) const;

  /// Waits for a staging buffer, and measures that.
  // outlives: who awaits keeps the operation.
  [[nodiscard]] static Awaitable<staging::Buffer> acquire_buffer(const Operation& self);
  /// A staging buffer when one is free, else an empty one.
  [[nodiscard]] staging::Buffer try_acquire_buffer() const;

  /// As `run`, for work that reads the caller's memory: an operation that is given up is not done while such work
  /// runs, and begins none afterwards.
  [[nodiscard]] Awaitable<> run_on_borrowed(std::function<void()> work) const;

 protected:
  /// Makes `prepared` happen; the first call counts.
  void mark_prepared() { prepared_.set(); }

  /// Counts the end of the operation for the context, before anybody is told.
  virtual void count_end(const std::exception_ptr& failure) = 0;

  /// Which threads `run` takes.
  [[nodiscard]] virtual async::ThreadPool& threads() const noexcept;

  /// Lets others go on that wait for this one; called before that.
  virtual void make_way() noexcept {}

  /// Fills in what all operations measure. Takes no memory.
  void fill_numbers(Report& report) const;
  /// Fills in the engine, and appends what was done in another way than was asked for.
  void fill_words(Report& report) const;

  /// Gives the trace to its sink, if there is one. Returns what went wrong; empty when nothing did.
  [[nodiscard]] std::string deliver_trace() const;

  /// Ends the helpers, however they stand. To be awaited before anything that they use goes away.
  [[nodiscard]] Awaitable<> stop_helpers() const;

 private:
  static Awaitable<> run_to_end(std::shared_ptr<Operation> self, Awaitable<> work);
  static Awaitable<> stop_after(std::weak_ptr<Operation> weak, std::chrono::nanoseconds deadline);
  static Awaitable<> give_up_after_grace(std::shared_ptr<Operation> self);

  void finish(std::exception_ptr failure) noexcept;
  [[nodiscard]] std::exception_ptr explain(std::exception_ptr failure);

  std::shared_ptr<Services> services_;
  std::string title_;
  std::shared_ptr<Meter> meter_;
  std::shared_ptr<MeteredEngine> engine_;
  Executor strand_;
  std::shared_ptr<async::TaskGroup> main_;
  std::shared_ptr<async::TaskGroup> helpers_;
  std::shared_ptr<async::TaskGroup> watch_;  // Deadlines.
  std::shared_ptr<BorrowedMemory> borrowed_ = std::make_shared<BorrowedMemory>();
  async::Event prepared_;
  async::Event done_;
  std::atomic<bool> is_finished_{false};
  std::mutex mutex_;  // Protects what follows.
  bool is_stopped_ = false;
  std::optional<Error> reason_;
};

}  // namespace cairn::core
