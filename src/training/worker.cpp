// SPDX-License-Identifier: Apache-2.0
#include "training/worker.hpp"

#include <utility>

#include "base/internal/thread.hpp"

namespace cairn::training {

Worker::~Worker() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Worker::start() {
  const MutexLock lock(mutex_);
  start_unless_running();
}

void Worker::start_unless_running() {
  if (!thread_.joinable()) {
    thread_ = start_thread("cairn-training", [this] { run(); });
  }
}

void Worker::post(std::function<void()> work) {
  const MutexLock lock(mutex_);
  start_unless_running();
  work_.push_back(std::move(work));
  changed_.notify_all();
}

void Worker::wait_idle() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() CAIRN_REQUIRES(mutex_) { return is_idle(); });
}

bool Worker::wait_idle(std::chrono::steady_clock::time_point end) {
  MutexLock lock(mutex_);
  return clock_.wait_until(lock, changed_, end, [this]() CAIRN_REQUIRES(mutex_) { return is_idle(); });
}

void Worker::run() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() CAIRN_REQUIRES(mutex_) { return is_ending_ || !work_.empty(); });
    if (work_.empty()) {
      return;
    }
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    is_busy_ = true;
    lock.unlock();
    work();
    work = nullptr;  // What it owned ends before anybody is told that it is done.
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace cairn::training
