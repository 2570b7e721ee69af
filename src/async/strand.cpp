// SPDX-License-Identifier: Apache-2.0
#include "async/strand.hpp"

#include <boost/asio/execution.hpp>
#include <boost/asio/require.hpp>

namespace cairn::async {
namespace asio = boost::asio;

namespace {

/// The turns that the calling thread has, the innermost first: one strand's work may begin a turn of another.
class ThreadTurn {
 public:
  explicit ThreadTurn(const StrandQueue& queue) noexcept : queue_(&queue), outer_(innermost) {
    innermost = this;
  }

  ~ThreadTurn() { innermost = outer_; }

  ThreadTurn(const ThreadTurn&) = delete;
  ThreadTurn& operator=(const ThreadTurn&) = delete;

  static bool is_of(const StrandQueue& queue) noexcept {
    for (const ThreadTurn* turn = innermost; turn != nullptr; turn = turn->outer_) {
      if (turn->queue_ == &queue) {
        return true;
      }
    }
    return false;
  }

 private:
  static inline thread_local const ThreadTurn* innermost = nullptr;

  const StrandQueue* queue_;
  const ThreadTurn* outer_;
};

}  // namespace

void StrandItems::push(StrandItem& item) noexcept {
  item.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &item;
  last_ = &item;
}

StrandItem& StrandItems::pop() noexcept {
  StrandItem& item = *first_;
  first_ = item.next;
  return item;
}

/// A turn, posted or running. When the pool goes before it ran, what waits for it goes, too.
class StrandQueue::Turn {
 public:
  explicit Turn(std::shared_ptr<StrandQueue> queue) noexcept : queue_(std::move(queue)) {}

  Turn(Turn&& other) noexcept = default;
  Turn& operator=(Turn&& other) = delete;

  ~Turn() {
    if (queue_) {
      queue_->drop_all();
    }
  }

  void operator()() noexcept {
    const std::shared_ptr<StrandQueue> queue = std::exchange(queue_, nullptr);
    if (queue->run_those_there()) {
      queue->post_turn();  // Behind others that wait for a thread.
    }
  }

 private:
  std::shared_ptr<StrandQueue> queue_;
};

bool StrandQueue::runs_this_thread() const noexcept {
  return ThreadTurn::is_of(*this);
}

void StrandQueue::push(StrandItem& item, bool is_never_at_once) {
  {
    const std::lock_guard lock(mutex_);
    items_.push(item);
    if (std::exchange(has_turn_, true)) {
      return;
    }
  }
  if (is_never_at_once) {
    post_turn();
  } else {
    pool_.execute(Turn(shared_from_this()));
  }
}

void StrandQueue::post_turn() {
  asio::require(pool_, asio::execution::blocking.never).execute(Turn(shared_from_this()));
}

bool StrandQueue::run_those_there() {
  const ThreadTurn turn(*this);
  StrandItems ready;
  {
    const std::lock_guard lock(mutex_);
    ready = std::exchange(items_, {});
  }
  while (!ready.is_empty()) {
    ready.pop().run();
  }
  const std::lock_guard lock(mutex_);
  has_turn_ = !items_.is_empty();
  return has_turn_;
}

void StrandQueue::drop_all() {
  std::unique_lock lock(mutex_);
  while (!items_.is_empty()) {  // What is dropped may post.
    StrandItem& item = items_.pop();
    lock.unlock();
    item.drop();
    lock.lock();
  }
  has_turn_ = false;
}

}  // namespace cairn::async
