// SPDX-License-Identifier: Apache-2.0
#include "async/internal/thread_pool.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

#include "async/internal/limited_pool.hpp"
#include "async/strand.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/thread.hpp"

namespace cairn::async {
namespace asio = boost::asio;

namespace {

/// Destroys what is queued and suspended while the pool is still whole: those destructors may post to it.
///
/// Starts its threads itself: when one cannot be started, Asio would wait for ever for those before it.
class Pool : public asio::thread_pool {
 public:
  Pool(const PoolThreads& threads, std::string name, int niceness)
      : asio::thread_pool(0),
        busy_(BusyThreads::of(get_executor())),
        name_(std::move(name)),
        niceness_(niceness) {
    try {
      for (std::size_t i = 0; i < threads.first; ++i) {
        start();
      }
    } catch (...) {
      end();
      throw;
    }
    busy_.grow(threads.first, threads.most, [this] { return try_start(); });
  }

  ~Pool() {
    end();
    shutdown();
  }

  [[nodiscard]] BusyThreads& busy() const noexcept { return busy_; }

 private:
  void start() {
    const MutexLock lock(mutex_);
    if (is_ended_) {
      return;
    }
    threads_.reserve(threads_.size() + 1);  // A thread that was started must be kept.
    threads_.push_back(start_thread(name_, [this] {
      lower_priority(niceness_);
      attach();
    }));
  }

  bool try_start() {
    try {
      start();
      return true;
    } catch (...) {  // No thread, or no memory for one.
      return false;
    }
  }

  void end() {
    asio::thread_pool::stop();
    std::vector<std::thread> threads;
    {
      const MutexLock lock(mutex_);
      is_ended_ = true;
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  BusyThreads& busy_;
  const std::string name_;
  const int niceness_;
  Mutex mutex_;
  bool is_ended_ CAIRN_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace

struct ThreadPool::State {
  State(const PoolThreads& threads, const char* name, int niceness)
      : size(threads.first), pool(threads, name, niceness) {}

  std::size_t size;
  Pool pool;
};

ThreadPool::ThreadPool(PoolThreads threads, const char* name, int niceness) {
  threads.first = std::max<std::size_t>(threads.first, 1);
  threads.most = std::max(threads.most, threads.first);
  state_ = std::make_unique<State>(threads, name, niceness);
}

ThreadPool::~ThreadPool() = default;

Executor ThreadPool::executor() const {
  return state_->pool.get_executor();
}

void ThreadPool::submit(std::function<void()> work) {
  state_->pool.busy().begin();
  asio::post(state_->pool, [&busy = state_->pool.busy(), work = std::move(work)]() mutable noexcept {
    work();
    work = nullptr;  // What it holds may be long in going: the thread is busy until then.
    busy.end();
  });
}

bool ThreadPool::runs_this_thread() const noexcept {
  return state_->pool.get_executor().running_in_this_thread();
}

std::size_t ThreadPool::size() const noexcept {
  return state_->size;
}

Executor make_driven_strand(const ThreadPool& pool) {
  return Strand::on(*pool.executor().target<PoolExecutor>(), true);
}

Executor make_companion_strand(const Executor& strand) {
  return strand.target<Strand>()->companion();
}

void drive(const Executor& strand,
           const std::function<std::chrono::nanoseconds(bool has_worked)>& while_idle) noexcept {
  strand.target<Strand>()->queue().drive(while_idle);
}

void release_driver(const Executor& strand) noexcept {
  strand.target<Strand>()->queue().release();
}

bool runs_this_thread(const Executor& strand) noexcept {
  return strand.target<Strand>()->queue().runs_this_thread();
}

Executor make_lane(const Executor& strand, Gate gate) {
  return strand.target<Strand>()->lane(std::move(gate));
}

Executor make_strand(const Executor& executor) {
  const auto* pool = executor.target<PoolExecutor>();
  return pool != nullptr ? Executor(Strand::on(*pool)) : Executor(asio::make_strand(executor));
}

// outlives: who awaits keeps the pool; when it goes first, the coroutine goes with it.
Awaitable<> offload(ThreadPool& pool, std::function<void()> work) {
  return offload(LimitedPool(pool, 1), std::move(work));
}

}  // namespace cairn::async
