// SPDX-License-Identifier: Apache-2.0
#include "io/thread_engine.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "cairn/base/thread.hpp"

#include "io/request_queue.hpp"

namespace cairn::io {
namespace {

class ThreadEngine final : public Engine {
 public:
  ThreadEngine(std::uint32_t threads, Syscalls& syscalls) : syscalls_(syscalls) {
    threads_.reserve(threads);
    try {
      for (std::uint32_t i = 0; i < threads; ++i) {
        threads_.push_back(start_thread("cairn-io", [this] { run(); }));
      }
    } catch (...) {
      stop();  // A destructor does not run for a half-made object, and threads must be joined.
      throw;
    }
  }

  ~ThreadEngine() override { stop(); }

  [[nodiscard]] std::string_view name() const noexcept override { return "threads"; }

  [[nodiscard]] Syscalls& syscalls() noexcept override { return syscalls_; }

  void submit(Request& request) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push(request);
    }
    changed_.notify_one();
  }

 private:
  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  // A thread leaves only when nothing is queued; what the last `done` submits is run by the thread that called it.
  void run() noexcept {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_stopping_ || !queue_.is_empty(); });
      if (queue_.is_empty()) {
        return;
      }
      Request& request = queue_.pop();
      lock.unlock();
      const std::int64_t result = perform(request);
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
  std::mutex mutex_;  // Guards queue_ and is_stopping_.
  std::condition_variable changed_;
  RequestQueue queue_;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Engine> make_thread_engine(std::uint32_t threads, Syscalls& syscalls) {
  return std::make_unique<ThreadEngine>(std::max(threads, 1u), syscalls);
}

}  // namespace cairn::io
