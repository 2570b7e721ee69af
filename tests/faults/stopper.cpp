// SPDX-License-Identifier: Apache-2.0
#include "faults/stopper.hpp"

#include "faults/injector.hpp"

namespace cairn::faults {

Stopper::Stopper(std::chrono::milliseconds slowness) : slowness_(slowness) {
  const Truce truce;  // Its own thread is none of the library's.
  thread_ = std::thread([this] { run(); });
}

Stopper::~Stopper() {
  {
    const std::lock_guard lock(mutex_);
    is_at_end_ = true;
  }
  thread_.join();
}

void Stopper::watch(const AsyncResponse* saving) {
  const std::lock_guard lock(mutex_);
  saving_ = saving;
}

bool Stopper::pause_until_end() {
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  const std::lock_guard lock(mutex_);
  return is_at_end_;
}

void Stopper::cancel() {
  const std::lock_guard lock(mutex_);
  if (saving_ != nullptr) {
    saving_->cancel();
  }
}

void Stopper::run() {
  bool is_at_end = false;
  while (!is_at_end && !injector().is_holding()) {
    is_at_end = pause_until_end();
  }
  const auto end = std::chrono::steady_clock::now() + slowness_;
  while (!is_at_end && std::chrono::steady_clock::now() < end) {
    cancel();
    is_at_end = pause_until_end();
  }
  injector().release();
}

}  // namespace cairn::faults
