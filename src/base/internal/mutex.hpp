// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/internal/thread_annotations.hpp"

namespace cairn {

/// `std::mutex`, known to clang's thread safety analysis: what it protects says so with CAIRN_GUARDED_BY.
class CAIRN_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

 private:
  friend class MutexLock;

  std::mutex mutex_;
};

/// Keeps a mutex locked for as long as it lives, but between `unlock` and `lock`.
class CAIRN_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CAIRN_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() CAIRN_RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  /// For a clock that is to wake who waits with this lock.
  [[nodiscard]] std::mutex* mutex() const noexcept { return lock_.mutex(); }

  void lock() CAIRN_ACQUIRE() { lock_.lock(); }
  void unlock() CAIRN_RELEASE() { lock_.unlock(); }

 private:
  friend class Condition;

  std::unique_lock<std::mutex> lock_;
};

/// `std::condition_variable` for such a lock. Where it returns the mutex is locked again.
class Condition {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(MutexLock& lock) { condition_.wait(lock.lock_); }

  /// Waits until `ready()`, which is called with the mutex locked, holds.
  template <typename Ready>
  void wait(MutexLock& lock, Ready ready) {
    condition_.wait(lock.lock_, std::move(ready));
  }

  void wait_for(MutexLock& lock, std::chrono::nanoseconds duration) {
    condition_.wait_for(lock.lock_, duration);
  }

  template <typename Ready>
  void wait_for(MutexLock& lock, std::chrono::nanoseconds duration, Ready ready) {
    condition_.wait_for(lock.lock_, duration, std::move(ready));
  }

  /// Gives up at `when`. Returns whether `ready()` holds.
  template <typename Ready>
  bool wait_until(MutexLock& lock, std::chrono::steady_clock::time_point when, Ready ready) {
    return condition_.wait_until(lock.lock_, when, std::move(ready));
  }

 private:
  std::condition_variable condition_;
};

}  // namespace cairn
