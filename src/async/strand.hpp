// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/thread_pool.hpp>

#include "async/internal/gate.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::async {

using PoolExecutor = boost::asio::thread_pool::executor_type;

class StrandLane;

/// Work that waits for its turn on a strand.
class StrandItem {
 public:
  StrandItem() = default;
  virtual ~StrandItem() = default;
  StrandItem(const StrandItem&) = delete;
  StrandItem& operator=(const StrandItem&) = delete;

  /// Gives its memory back, then does the work, which must not throw: its waiters would wait for ever.
  virtual void run() = 0;
  /// Gives its memory back, and the work up.
  virtual void drop() = 0;

  StrandItem* next = nullptr;
  /// The lane of the work: once it is closed, the work is given up instead. Null: the work is always done.
  std::shared_ptr<const StrandLane> lane;
};

/// Items in the order in which they came.
class StrandItems {
 public:
  [[nodiscard]] bool is_empty() const noexcept { return first_ == nullptr; }
  void push(StrandItem& item) noexcept;
  StrandItem& pop() noexcept;

 private:
  StrandItem* first_ = nullptr;
  StrandItem* last_ = nullptr;
};

/// Counts what waits for the threads of a pool or runs on them, and asks for another thread when all of them are
/// busy: what blocks one of them keeps nobody else waiting.
///
/// Threads: every method may be called from any thread, but `grow` from the one that makes the pool.
class BusyThreads final : public boost::asio::execution_context::service {
 public:
  static inline boost::asio::execution_context::id id;

  explicit BusyThreads(boost::asio::execution_context& context) : service(context) {}

  /// Returns the counts of the pool that `executor` belongs to.
  static BusyThreads& of(const PoolExecutor& executor);

  /// There are `threads` now; `start` adds one, `most` in all, and may refuse by returning false.
  void grow(std::size_t threads, std::size_t most, std::function<bool()> start);

  /// Something begins to wait for a thread.
  void begin() noexcept;
  /// It has run, or never will.
  void end() noexcept { --busy_; }

 private:
  void shutdown() override {}

  std::atomic<std::size_t> busy_{0};
  std::atomic<std::size_t> threads_{0};
  std::size_t most_ = 0;
  std::function<bool()> start_;
};

/// The queue of a strand: one thread at a time takes its turn and runs what has come until then. As a rule that is a
/// thread of the pool; a queue that is driven is run by the thread that drives it, and by nobody else. Turns of a
/// queue that has a leader go to the thread that drives the leader, while that has nothing to do; else to the pool.
class StrandQueue : public std::enable_shared_from_this<StrandQueue> {
 public:
  StrandQueue(const PoolExecutor& pool, bool is_driven, std::shared_ptr<StrandQueue> leader = nullptr)
      : pool_(pool),
        threads_(BusyThreads::of(pool)),
        leader_(std::move(leader)),
        is_driven_(is_driven),
        has_turn_(is_driven) {}

  [[nodiscard]] const PoolExecutor& pool() const noexcept { return pool_; }
  /// Returns whether the calling thread has its turn.
  [[nodiscard]] bool runs_this_thread() const noexcept;

  /// Queues `item`. When nobody has a turn, one begins: posted, or at once where that is possible and
  /// allowed.
  void push(StrandItem& item, bool is_never_at_once);

  /// Runs items on the calling thread, as they come, until `release` has been called; then the pool takes over.
  /// `while_idle`, if it is not empty, is called while there are none, as often as it says: `has_worked` since it was
  /// called last. Must not throw.
  void drive(const std::function<std::chrono::nanoseconds(bool has_worked)>& while_idle) noexcept;
  /// Sends the driver away, after the item that it runs. Does nothing to a queue that nobody drives.
  void release() noexcept;

 private:
  class Turn;

  void post_turn();
  /// Gives the turn that `companion` has to this queue's driver. Returns false when there is no driver, or it is busy
  /// with an item. A call by the driving thread itself succeeds: the item that it runs ends first.
  [[nodiscard]] bool take_in(std::shared_ptr<StrandQueue> companion);
  /// Runs all items that are there. Returns whether others have come meanwhile.
  [[nodiscard]] bool run_those_there();
  void run_as_turn(StrandItem& item) const;
  void drop_all();

  const PoolExecutor pool_;
  BusyThreads& threads_;
  const std::shared_ptr<StrandQueue> leader_;
  Mutex mutex_;
  Condition changed_;
  StrandItems items_ CAIRN_GUARDED_BY(mutex_);
  bool is_driven_ CAIRN_GUARDED_BY(mutex_);
  bool has_turn_ CAIRN_GUARDED_BY(mutex_);  ///< One runs, is posted, or is the driver's.
  std::thread::id driver_ CAIRN_GUARDED_BY(mutex_);
  bool is_idle_ CAIRN_GUARDED_BY(mutex_) = false;                    ///< The driver waits for items.
  std::shared_ptr<StrandQueue> companion_ CAIRN_GUARDED_BY(mutex_);  ///< Whose turn is the driver's next.
};

/// Some of the work of a strand, that can be given up together: what comes to a closed lane is destroyed, not run.
class StrandLane {
 public:
  explicit StrandLane(std::shared_ptr<StrandQueue> queue) : queue_(std::move(queue)) {}
  StrandLane(std::shared_ptr<StrandQueue> queue, Gate gate)
      : queue_(std::move(queue)), gate_(std::move(gate)) {}

  [[nodiscard]] const std::shared_ptr<StrandQueue>& queue() const noexcept { return queue_; }
  /// Null: the lane is always open.
  [[nodiscard]] const Gate* gate() const noexcept { return gate_ ? &*gate_ : nullptr; }

 private:
  std::shared_ptr<StrandQueue> queue_;
  std::optional<Gate> gate_;
};

/// A strand of a pool: an executor that never runs two things at a time. Asio's own has no lanes, cannot be driven by a
/// caller, and is too large to lie inside an `Executor`, so that each copy that posts would take memory.
///
/// Does not count as work of the pool, which runs until it is stopped.
class Strand {
 public:
  static Strand on(const PoolExecutor& pool, bool is_driven = false) {
    return {std::make_shared<StrandLane>(std::make_shared<StrandQueue>(pool, is_driven)), false};
  }

  /// Another strand, whose work the driver of this one runs, too, while it is idle.
  [[nodiscard]] Strand companion() const {
    StrandQueue& leader = queue();
    return {std::make_shared<StrandLane>(
                std::make_shared<StrandQueue>(leader.pool(), false, leader.shared_from_this())),
            false};
  }

  /// The same strand for work that is given up when `gate` closes; each piece of it counts as a visitor while it runs.
  [[nodiscard]] Strand lane(Gate gate) const {
    return {std::make_shared<StrandLane>(lane_->queue(), std::move(gate)), is_never_};
  }

  [[nodiscard]] StrandQueue& queue() const noexcept { return *lane_->queue(); }

  [[nodiscard]] boost::asio::execution_context& query(
      boost::asio::execution::context_t /*property*/) const noexcept {
    return boost::asio::query(queue().pool(), boost::asio::execution::context);
  }

  [[nodiscard]] boost::asio::execution::blocking_t query(
      boost::asio::execution::blocking_t /*property*/) const noexcept {
    using boost::asio::execution::blocking;
    return is_never_ ? boost::asio::execution::blocking_t(blocking.never)
                     : boost::asio::execution::blocking_t(blocking.possibly);
  }

  [[nodiscard]] Strand require(boost::asio::execution::blocking_t::never_t /*property*/) const noexcept {
    return {lane_, true};
  }

  [[nodiscard]] Strand require(boost::asio::execution::blocking_t::possibly_t /*property*/) const noexcept {
    return {lane_, false};
  }

  template <class Work>
  void execute(Work&& work) const {
    if (!is_never_ && queue().runs_this_thread()) {
      std::decay_t<Work> now(std::forward<Work>(work));
      const Gate* gate = lane_->gate();
      Gate::Visit visit = gate != nullptr ? gate->try_enter() : Gate::Visit();
      if (gate == nullptr || visit) {
        now();
      }
      return;
    }
    StrandItem& item = Queued<std::decay_t<Work>>::make(std::forward<Work>(work));
    if (lane_->gate() != nullptr) {
      item.lane = lane_;
    }
    queue().push(item, is_never_);
  }

  friend bool operator==(const Strand& a, const Strand& b) noexcept {
    return a.lane_ == b.lane_ && a.is_never_ == b.is_never_;
  }

  friend bool operator!=(const Strand& a, const Strand& b) noexcept { return !(a == b); }

 private:
  template <class Work>
  class Queued final : public StrandItem {
   public:
    template <class From>
    explicit Queued(From&& work) : work_(std::forward<From>(work)) {}

    template <class From>
    static StrandItem& make(From&& work) {
      Allocator allocator;
      Queued* memory = allocator.allocate(1);
      return *new (memory) Queued(std::forward<From>(work));  // Moves do not throw.
    }

    void run() override {
      Work work = take();
      work();
    }

    void drop() override { static_cast<void>(take()); }

   private:
    using Allocator = boost::asio::recycling_allocator<Queued>;

    /// The memory is free before the work is done: that may need the same piece again.
    Work take() {
      Work work = std::move(work_);
      Allocator allocator;
      this->~Queued();
      allocator.deallocate(this, 1);
      return work;
    }

    Work work_;
  };

  Strand(std::shared_ptr<const StrandLane> lane, bool is_never) noexcept
      : lane_(std::move(lane)), is_never_(is_never) {}

  std::shared_ptr<const StrandLane> lane_;
  bool is_never_ = false;  ///< Posts always; never runs the work at once.
};

static_assert(sizeof(Strand) <= sizeof(std::shared_ptr<void>) + sizeof(void*));

}  // namespace cairn::async
