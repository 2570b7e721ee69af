// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/clock.hpp"

namespace cairn {
namespace {

class SystemClock final : public Clock {
 public:
  std::chrono::system_clock::time_point now() const override { return std::chrono::system_clock::now(); }
  std::chrono::steady_clock::time_point steady_now() const override {
    return std::chrono::steady_clock::now();
  }
};

}  // namespace

const Clock& system_clock() {
  // Never destroyed: threads of a context that is still busy at the end of the program go on using it.
  static const SystemClock& clock = *new SystemClock;
  return clock;
}

}  // namespace cairn
