// SPDX-License-Identifier: Apache-2.0
#include "training/internal/worker.hpp"

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
  if (idle_.has_happened()) {
    idle_ = async::Event();
  }
  changed_.notify_all();
}

async::Event Worker::idle() const {
  const MutexLock lock(mutex_);
  return idle_;
}

void Worker::run() {
  const async::ThreadScope scope(this);
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() CAIRN_REQUIRES(mutex_) { return is_ending_ || !work_.empty(); });
    if (work_.empty()) {
      return;
    }
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // What it owned ends before anybody is told that it is done.
    lock.lock();
    if (work_.empty()) {
      idle_.set();  // Under the lock: what is posted from here on has another event.
    }
  }
}

}  // namespace cairn::training
