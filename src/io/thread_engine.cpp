// SPDX-License-Identifier: Apache-2.0
#include "io/thread_engine.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/internal/mutex.hpp"
#include "base/internal/thread.hpp"
#include "io/request_queue.hpp"

namespace cairn::io {
namespace {

/// A sync may take seconds, and is the only thing that a save waits for at its end: it must not keep others waiting.
constexpr std::size_t kMostSyncThreads = 64;

/// Threads that run requests of one kind, oldest first.
class Crew {
 public:
  /// Starts `first` threads; others join, up to `most`, when a request comes and all are busy.
  Crew(std::size_t first, std::size_t most, Syscalls& syscalls) : syscalls_(syscalls), most_(most) {
    threads_.reserve(most);
    try {
      for (std::size_t i = 0; i < first; ++i) {
        threads_.push_back(start());
      }
    } catch (...) {
      stop();  // A destructor does not run for a half-made object, and threads must be joined.
      throw;
    }
  }

  ~Crew() { stop(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void submit(Request& request) noexcept {
    {
      const MutexLock lock(mutex_);
      queue_.push(request);
      if (++pending_ > threads_.size() && threads_.size() < most_ && !is_stopping_) {
        try {
          threads_.push_back(start());
        } catch (...) {  // No thread to be had: those that are there will come to it.
        }
      }
    }
    changed_.notify_one();
  }

 private:
  std::thread start() {
    return start_thread("cairn-io", [this] { run(); });
  }

  void stop() noexcept {
    {
      const MutexLock lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  // A thread leaves only when nothing is queued; what the last `done` submits is run by the thread that called it.
  void run() noexcept {
    MutexLock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this]() CAIRN_REQUIRES(mutex_) { return is_stopping_ || !queue_.is_empty(); });
      if (queue_.is_empty()) {
        return;
      }
      Request& request = queue_.pop();
      lock.unlock();
      const std::int64_t result = perform(request);
      --pending_;
      request.done(request, result);  // `request` may be gone after this.
      lock.lock();
    }
  }

  std::int64_t perform(const Request& request) noexcept {
    switch (request.operation) {
      case Operation::read:
        return syscalls_.read_at(request.fd, request.data, request.size, request.offset);
      case Operation::write:
        return syscalls_.write_at(request.fd, request.data, request.size, request.offset);
      case Operation::sync_data:
        return syscalls_.sync_data(request.fd);
    }
    return -EINVAL;
  }

  Syscalls& syscalls_;
  const std::size_t most_;
  std::atomic<std::size_t> pending_{0};  // Queued, or being performed.
  Mutex mutex_;
  Condition changed_;
  RequestQueue queue_ CAIRN_GUARDED_BY(mutex_);
  bool is_stopping_ CAIRN_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // Grows under the mutex; is joined when nobody submits any more.
};

class ThreadEngine final : public Engine {
 public:
  ThreadEngine(std::uint32_t threads, Syscalls& syscalls)
      : syscalls_(syscalls), transfers_(threads, threads, syscalls), syncs_(1, kMostSyncThreads, syscalls) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "threads"; }

  [[nodiscard]] Syscalls& syscalls() noexcept override { return syscalls_; }

  void submit(Request& request) noexcept override {
    (request.operation == Operation::sync_data ? syncs_ : transfers_).submit(request);
  }

 private:
  Syscalls& syscalls_;
  Crew transfers_;
  Crew syncs_;
};

}  // namespace

std::unique_ptr<Engine> make_thread_engine(std::uint32_t threads, Syscalls& syscalls) {
  return std::make_unique<ThreadEngine>(std::max(threads, 1u), syscalls);
}

}  // namespace cairn::io
