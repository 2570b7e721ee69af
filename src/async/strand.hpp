// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include <boost/asio/execution.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/thread_pool.hpp>

namespace cairn::async {

using PoolExecutor = boost::asio::thread_pool::executor_type;

/// What waits for its turn on a strand.
class StrandItem {
 public:
  StrandItem() = default;
  virtual ~StrandItem() = default;
  StrandItem(const StrandItem&) = delete;
  StrandItem& operator=(const StrandItem&) = delete;

  /// Gives its memory back, then does the work, which must not throw.
  virtual void run() = 0;
  /// Gives its memory back, and the work up.
  virtual void drop() = 0;

  StrandItem* next = nullptr;
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

/// The queue of a strand: one thread of the pool at a time takes its turn and runs what has come until then.
class StrandQueue : public std::enable_shared_from_this<StrandQueue> {
 public:
  explicit StrandQueue(const PoolExecutor& pool) : pool_(pool) {}

  [[nodiscard]] const PoolExecutor& pool() const noexcept { return pool_; }
  /// Whether the calling thread has its turn.
  [[nodiscard]] bool runs_this_thread() const noexcept;

  /// Queues `item`. When nobody has a turn, one begins: posted, or at once where that is possible and
  /// allowed.
  void push(StrandItem& item, bool is_never_at_once);

 private:
  class Turn;

  void post_turn();
  /// Runs all items that are there. Returns whether others have come meanwhile.
  [[nodiscard]] bool run_those_there();
  void drop_all();

  const PoolExecutor pool_;
  std::mutex mutex_;  // Protects what follows.
  StrandItems items_;
  bool has_turn_ = false;  ///< One runs or is posted.
};

/// A strand of a pool: an executor that never runs two things at a time. Asio's own cannot be used here: to
/// make one without memory is undefined (Boost 1.81: its destructor runs before it is complete), and it is too
/// large to lie inside an `Executor`, so that each copy that posts would take memory, at moments when nobody
/// can be told that there is none.
///
/// Does not count as work of the pool, which runs until it is stopped.
class Strand {
 public:
  static Strand on(const PoolExecutor& pool) { return {std::make_shared<StrandQueue>(pool), false}; }

  [[nodiscard]] boost::asio::execution_context& query(
      boost::asio::execution::context_t /*property*/) const noexcept {
    return boost::asio::query(queue_->pool(), boost::asio::execution::context);
  }

  [[nodiscard]] boost::asio::execution::blocking_t query(
      boost::asio::execution::blocking_t /*property*/) const noexcept {
    using boost::asio::execution::blocking;
    return is_never_ ? boost::asio::execution::blocking_t(blocking.never)
                     : boost::asio::execution::blocking_t(blocking.possibly);
  }

  [[nodiscard]] Strand require(boost::asio::execution::blocking_t::never_t /*property*/) const noexcept {
    return {queue_, true};
  }

  [[nodiscard]] Strand require(boost::asio::execution::blocking_t::possibly_t /*property*/) const noexcept {
    return {queue_, false};
  }

  template <class Work>
  void execute(Work&& work) const {
    if (!is_never_ && queue_->runs_this_thread()) {
      std::decay_t<Work> now(std::forward<Work>(work));
      now();
      return;
    }
    queue_->push(Queued<std::decay_t<Work>>::make(std::forward<Work>(work)), is_never_);
  }

  friend bool operator==(const Strand& a, const Strand& b) noexcept {
    return a.queue_ == b.queue_ && a.is_never_ == b.is_never_;
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

  Strand(std::shared_ptr<StrandQueue> queue, bool is_never) noexcept
      : queue_(std::move(queue)), is_never_(is_never) {}

  std::shared_ptr<StrandQueue> queue_;
  bool is_never_ = false;  ///< Posts always; never runs the work at once.
};

static_assert(sizeof(Strand) <= sizeof(std::shared_ptr<void>) + sizeof(void*));

}  // namespace cairn::async
