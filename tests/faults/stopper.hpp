// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <mutex>
#include <thread>

#include "cairn/core/save.hpp"

namespace cairn::faults {

/// Cancels a save as soon as a call is slow, and lets the call end later. Outlives the context whose calls are slow.
///
/// Threads: one, beside its own.
class Stopper {
 public:
  explicit Stopper(std::chrono::milliseconds slowness);
  /// Releases whatever is still slow.
  ~Stopper();
  Stopper(const Stopper&) = delete;
  Stopper& operator=(const Stopper&) = delete;

  /// What to cancel; null: nothing any more.
  void watch(const AsyncResponse* saving);

 private:
  void run();
  /// Returns whether it is at its end, after a short pause.
  bool pause_until_end();
  void cancel();

  const std::chrono::milliseconds slowness_;
  std::mutex mutex_;  // Protects all below.
  const AsyncResponse* saving_ = nullptr;
  bool is_at_end_ = false;
  std::thread thread_;
};

}  // namespace cairn::faults
