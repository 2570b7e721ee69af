// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "async/internal/event.hpp"
#include "support/forwarding_syscalls.hpp"

namespace cairn::testing {

/// A kind of call that can be held.
using Held = CallKind;

/// The operating system, but calls of one kind are held, before they are done, until they are let go: a disk that
/// answers when the test says so.
class HeldSyscalls final : public ForwardingSyscalls {
 public:
  /// From here on, calls of `kind` wait; at most `most` of them, and of transfers those of `least_bytes` or more.
  void hold(Held kind, int most = 1 << 30, std::size_t least_bytes = 0) {
    kind_ = kind;
    left_ = most;
    least_bytes_ = least_bytes;
    is_holding_ = true;
  }
  void let_go() {
    is_holding_ = false;
    gate_.set();
  }
  /// How many wait, or have waited.
  [[nodiscard]] int held() const { return held_; }
  /// Returns whether a call is held within a minute.
  [[nodiscard]] bool holds(int calls = 1) const {
    for (int i = 0; i < 60000 && held_ < calls; ++i) {
      static_cast<void>(async::Event().wait_for(std::chrono::milliseconds(1)));
    }
    return held_ >= calls;
  }

 private:
  std::int64_t pass(const PassingCall& call) noexcept override {
    if (is_holding_ && call.kind == kind_ && call.bytes >= least_bytes_ && left_-- > 0) {
      ++held_;
      gate_.get();
    }
    return call.make();
  }

  std::atomic<Held> kind_{Held::open};
  std::atomic<bool> is_holding_{false};
  std::atomic<int> left_{0};
  std::atomic<std::size_t> least_bytes_{0};
  std::atomic<int> held_{0};
  const async::Event gate_;
};

}  // namespace cairn::testing
