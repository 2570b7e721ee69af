// SPDX-License-Identifier: Apache-2.0
#include "cairn/async/thread_pool.hpp"

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

#include "cairn/base/thread.hpp"

#include "async/strand.hpp"

namespace cairn::async {
namespace asio = boost::asio;

namespace {

/// Destroys what is queued and suspended while the pool is still whole: those destructors may post to it.
///
/// Starts its threads itself: when one cannot be started, Asio would wait for ever for those before it.
class Pool : public asio::thread_pool {
 public:
  Pool(std::size_t threads, const std::string& name, int niceness) : asio::thread_pool(0) {
    threads_.reserve(threads);
    try {
      for (std::size_t i = 0; i < threads; ++i) {
        threads_.push_back(start_thread(name, [this, niceness] {
          give_way(niceness);
          attach();
        }));
      }
    } catch (...) {
      end();
      throw;
    }
  }

  ~Pool() {
    end();
    shutdown();
  }

 private:
  void end() {
    stop();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  std::vector<std::thread> threads_;
};

}  // namespace

struct ThreadPool::State {
  State(std::size_t threads, const char* name, int niceness) : size(threads), pool(threads, name, niceness) {}

  std::size_t size;
  Pool pool;
};

ThreadPool::ThreadPool(std::size_t threads, const char* name, int niceness)
    : state_(std::make_unique<State>(std::max<std::size_t>(threads, 1), name, niceness)) {}

ThreadPool::~ThreadPool() = default;

Executor ThreadPool::executor() const {
  return state_->pool.get_executor();
}

void ThreadPool::submit(std::function<void()> work) {
  asio::post(state_->pool, [work = std::move(work)]() noexcept { work(); });
}

bool ThreadPool::runs_this_thread() const noexcept {
  return state_->pool.get_executor().running_in_this_thread();
}

std::size_t ThreadPool::size() const noexcept {
  return state_->size;
}

Executor make_strand(const Executor& executor) {
  const auto* pool = executor.target<PoolExecutor>();
  return pool != nullptr ? Executor(Strand::on(*pool)) : Executor(asio::make_strand(executor));
}

// outlives: who awaits keeps the pool; when it goes first, the coroutine goes with it.
Awaitable<> offload(ThreadPool& pool, std::function<void()> work) {
  Start start = [&pool, &work](Resume resume) {
    pool.submit([&work, resume = std::move(resume)] {
      std::exception_ptr failure;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      resume(std::move(failure));
    });
  };
  co_await suspend(std::move(start));
}

}  // namespace cairn::async
