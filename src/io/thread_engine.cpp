// SPDX-License-Identifier: Apache-2.0
#include "io/thread_engine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/internal/assert.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"
#include "base/internal/thread.hpp"
#include "io/internal/engine_share.hpp"
#include "io/internal/request_queue.hpp"

namespace cairn::io {
namespace {

/// A sync may take seconds, and is the only thing that a save waits for at its end: it must not keep others waiting.
constexpr std::size_t kSyncThreads = 64;

/// For requests of one kind, of all shares: more than there are requests on their way to disks that hang.
constexpr std::size_t kMostThreads = 1024;

/// Threads that run requests of one kind: of each share so many at once, oldest first.
class Crew {
 public:
  /// Which part of a share this is.
  enum class Kind : std::uint8_t { transfers, syncs };

  /// Starts `first` threads; others join, up to `kMostThreads`, when all are busy with requests of other shares, or
  /// of this one and it has fewer than `most`.
  Crew(Kind kind, std::size_t first, std::size_t most, Syscalls& syscalls)
      : syscalls_(syscalls), kind_(kind), most_(most) {
    threads_.reserve(kMostThreads);
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
      EngineShare::Part& part = part_of(request);
      CAIRN_ASSERT(part.at_work <= most_, "no share has more requests at work than it may have");
      if (part.at_work == most_) {
        part.waiting.push(request);
        return;
      }
      ++part.at_work;
      queue_.push(request);
      if (++pending_ > threads_.size() && threads_.size() < kMostThreads && !is_stopping_) {
        try {
          threads_.push_back(start());
        } catch (...) {  // No thread to be had: those that are there will come to it.
          CAIRN_PROBE("io.no_thread_for_requests");
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
      CAIRN_ASSERT(pending_ > 0, "a request that is queued is counted");
      lock.unlock();
      const std::int64_t result = perform(request);
      lock.lock();
      make_room(part_of(request));
      lock.unlock();
      request.done(request, result);  // `request` may be gone after this, and its share.
      lock.lock();
    }
  }

  [[nodiscard]] EngineShare::Part& part_of(const Request& request) noexcept {
    EngineShare& share = request.share != nullptr ? *request.share : of_nobody_;
    return kind_ == Kind::transfers ? share.transfers : share.syncs;
  }

  /// One of the share is done: the next of it comes behind what others have asked for meanwhile. The calling thread
  /// looks at the queue next, so nobody is woken.
  void make_room(EngineShare::Part& part) noexcept CAIRN_REQUIRES(mutex_) {
    CAIRN_ASSERT(part.at_work > 0 && pending_ > 0, "a request that is done was at work");
    if (part.waiting.is_empty()) {
      --part.at_work;
      --pending_;
      return;
    }
    queue_.push(part.waiting.pop());
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
  const Kind kind_;
  const std::size_t most_;  // Of one share at once.
  Mutex mutex_;             // Guards the shares, too.
  Condition changed_;
  EngineShare of_nobody_;
  std::size_t pending_ CAIRN_GUARDED_BY(mutex_) = 0;  // Queued, or being performed.
  RequestQueue queue_ CAIRN_GUARDED_BY(mutex_);
  bool is_stopping_ CAIRN_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // Grows under the mutex; is joined when nobody submits any more.
};

class ThreadEngine final : public Engine {
 public:
  ThreadEngine(std::uint32_t threads, Syscalls& syscalls)
      : syscalls_(syscalls),
        transfers_(Crew::Kind::transfers, threads, threads, syscalls),
        syncs_(Crew::Kind::syncs, 1, kSyncThreads, syscalls) {}

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
