// SPDX-License-Identifier: Apache-2.0
#include "async/strand.hpp"

#include <boost/asio/execution.hpp>
#include <boost/asio/require.hpp>

#include "async/internal/thread_scope.hpp"

namespace cairn::async {
namespace asio = boost::asio;

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

BusyThreads& BusyThreads::of(const PoolExecutor& executor) {
  return asio::use_service<BusyThreads>(asio::query(executor, asio::execution::context));
}

void BusyThreads::grow(std::size_t threads, std::size_t most, std::function<bool()> start) {
  threads_ = threads;
  most_ = most;
  start_ = std::move(start);
}

void BusyThreads::begin() noexcept {
  const std::size_t busy = ++busy_;
  std::size_t threads = threads_;
  while (busy > threads && threads < most_) {
    if (!threads_.compare_exchange_weak(threads, threads + 1)) {
      continue;
    }
    if (!start_()) {
      --threads_;  // The system has none to give: those that are there do the work, one after the other.
    }
    return;
  }
}

namespace {

/// Runs an item, or gives it up when its lane is closed. While it runs it is a visitor of the lane's gate.
void run_item(StrandItem& item) {
  const std::shared_ptr<const StrandLane> lane = std::move(item.lane);
  if (lane == nullptr) {
    item.run();
    return;
  }
  if (const Gate::Visit visit = lane->gate()->try_enter()) {
    item.run();
  } else {
    item.drop();
  }
}

}  // namespace

/// A turn, posted or running. When the pool goes before it ran, what waits for it goes, too.
class StrandQueue::Turn {
 public:
  explicit Turn(std::shared_ptr<StrandQueue> queue) noexcept : queue_(std::move(queue)) {
    queue_->threads_.begin();
  }

  Turn(Turn&& other) noexcept = default;
  Turn& operator=(Turn&& other) = delete;

  ~Turn() {
    if (queue_) {
      queue_->threads_.end();
      queue_->drop_all();
    }
  }

  void operator()() noexcept {
    const std::shared_ptr<StrandQueue> queue = std::exchange(queue_, nullptr);
    const bool has_more = queue->run_those_there();
    queue->threads_.end();
    if (has_more) {
      queue->post_turn();  // Behind others that wait for a thread.
    }
  }

 private:
  std::shared_ptr<StrandQueue> queue_;
};

bool StrandQueue::runs_this_thread() const noexcept {
  return ThreadScope::is_in(this);
}

void StrandQueue::push(StrandItem& item, bool is_never_at_once) {
  {
    const MutexLock lock(mutex_);
    items_.push(item);
    if (is_driven_) {
      changed_.notify_one();
      return;
    }
    if (std::exchange(has_turn_, true)) {
      return;
    }
  }
  // Not under our lock: no thread ever holds the locks of two queues, so their order cannot matter.
  if (leader_ && leader_->take_in(shared_from_this())) {
    return;
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

bool StrandQueue::take_in(std::shared_ptr<StrandQueue> companion) {
  const MutexLock lock(mutex_);
  // A driver that is busy may run a handler, which may block for long: the companion then goes to the pool, which has
  // other threads. A call by the driving thread itself is fine: it comes back to the queue when its item ends.
  if (!is_driven_ || companion_ || !(is_idle_ || driver_ == std::this_thread::get_id())) {
    return false;
  }
  companion_ = std::move(companion);
  changed_.notify_one();
  return true;
}

bool StrandQueue::run_those_there() {
  const ThreadScope turn(this);
  StrandItems ready;
  {
    const MutexLock lock(mutex_);
    ready = std::exchange(items_, {});
  }
  while (!ready.is_empty()) {
    run_item(ready.pop());
  }
  // Under the lock: an item that is pushed meanwhile is either seen here, or begins a turn of its own.
  const MutexLock lock(mutex_);
  has_turn_ = !items_.is_empty();
  return has_turn_;
}

void StrandQueue::drive(const std::function<std::chrono::nanoseconds(bool has_worked)>& while_idle) noexcept {
  const std::shared_ptr<StrandQueue> keep = shared_from_this();  // An item may drop the last reference.
  MutexLock lock(mutex_);
  driver_ = std::this_thread::get_id();
  bool has_worked = true;
  while (is_driven_) {
    if (const std::shared_ptr<StrandQueue> companion = std::exchange(companion_, nullptr)) {
      // One turn of the companion, then a look at `is_driven_` again: the caller leaves even while the companion goes
      // on.
      lock.unlock();
      const bool has_more = companion->run_those_there();
      lock.lock();
      companion_ = has_more ? companion : nullptr;
      has_worked = true;
    } else if (!items_.is_empty()) {
      StrandItem& item = items_.pop();
      lock.unlock();
      run_as_turn(item);
      lock.lock();
      has_worked = true;
    } else if (!while_idle) {
      is_idle_ = true;  // From here on `take_in` may give it a companion.
      changed_.wait(lock);
      is_idle_ = false;
    } else {
      lock.unlock();
      const std::chrono::nanoseconds pause = while_idle(std::exchange(has_worked, false));
      lock.lock();
      is_idle_ = true;
      // Something may have come meanwhile.
      changed_.wait_for(lock, pause, [this]() CAIRN_REQUIRES(mutex_) {
        return !is_driven_ || companion_ || !items_.is_empty();
      });
      is_idle_ = false;
    }
  }
  // The caller leaves; what is left goes to the pool. `has_turn_` has been true for as long as the queue was driven,
  // so nobody else has posted a turn.
  driver_ = std::thread::id();
  has_turn_ = !items_.is_empty();
  const bool has_more = has_turn_;
  const std::shared_ptr<StrandQueue> companion = std::exchange(companion_, nullptr);
  lock.unlock();
  if (companion) {
    companion->post_turn();
  }
  if (has_more) {
    post_turn();
  }
}

void StrandQueue::run_as_turn(StrandItem& item) const {
  const ThreadScope turn(
      this);  // Not around a companion's turn: what that gives to this queue waits for its own.
  run_item(item);
}

void StrandQueue::release() noexcept {
  const MutexLock lock(mutex_);
  is_driven_ = false;
  changed_.notify_one();
}

void StrandQueue::drop_all() {
  MutexLock lock(mutex_);
  while (!items_.is_empty()) {  // What is dropped may post.
    StrandItem& item = items_.pop();
    lock.unlock();
    item.drop();
    lock.lock();
  }
  has_turn_ = false;
}

}  // namespace cairn::async
