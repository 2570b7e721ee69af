// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "verdicts/harness_clock.hpp"

namespace cairn::verdicts {

/// Moves the clock of a program on: to the next moment that somebody waits for, whenever nobody has anything left to
/// do.
///
/// So all work takes no time, and whoever answers after a moment has passed is late, however slow the machine is.
/// Where everybody waits and nobody for the clock, or where the program takes too long, it hangs.
class Timekeeper {
 public:
  /// `on_hang` is called on the timekeeper's thread, once, and says why.
  Timekeeper(HarnessClock& clock, std::function<void(const std::string& why)> on_hang);
  ~Timekeeper();
  Timekeeper(const Timekeeper&) = delete;
  Timekeeper& operator=(const Timekeeper&) = delete;

 private:
  void keep();
  void keep_manual();
  void keep_real();
  void hang(const std::string& why);

  HarnessClock& clock_;
  std::function<void(const std::string& why)> on_hang_;
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace cairn::verdicts
