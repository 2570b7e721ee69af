// SPDX-License-Identifier: Apache-2.0
#include "cairn/async/thread_pool.hpp"

#include <algorithm>
#include <exception>
#include <string>

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <pthread.h>

namespace cairn::async {
namespace asio = boost::asio;

namespace {

/// Destroys what is queued and suspended while the pool is still whole: those destructors may post to it.
class Pool : public asio::thread_pool {
 public:
  using asio::thread_pool::thread_pool;

  ~Pool() {
    stop();
    join();
    shutdown();
  }
};

}  // namespace

struct ThreadPool::State {
  explicit State(std::size_t threads) : size(threads), pool(threads) {}

  std::size_t size;
  Pool pool;
};

ThreadPool::ThreadPool(std::size_t threads, const char* name)
    : state_(std::make_unique<State>(std::max<std::size_t>(threads, 1))) {
  for (std::size_t i = 0; i < state_->size; ++i) {
    // A thread that takes two of these leaves another unnamed: names are for people only.
    asio::post(state_->pool, [title = std::string(name).substr(0, 15)] {
      ::pthread_setname_np(::pthread_self(), title.c_str());
    });
  }
}

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
  return asio::make_strand(executor);
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
