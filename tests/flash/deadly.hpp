// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "support/forwarding_syscalls.hpp"

namespace cairn::flash {

/// The operating system, until the call with a number: that is never made.
class Deadly final : public testing::ForwardingSyscalls {
 public:
  explicit Deadly(std::uint64_t last) : last_(last) {}

  [[nodiscard]] std::uint64_t calls() const { return calls_; }

  int map(int fd, std::size_t size_bytes, std::byte*& memory) noexcept override {
    count();
    return ForwardingSyscalls::map(fd, size_bytes, memory);
  }

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    count();
    return call.make();
  }

  void count() noexcept {
    if (++calls_ == last_) {
      ::kill(::getpid(), SIGKILL);
    }
  }

  const std::uint64_t last_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace cairn::flash
