// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "support/forwarding_syscalls.hpp"

namespace cairn::flash {

/// The operating system, until the call with a number: that is never made.
class Deadly final : public testing::ForwardingSyscalls {
 public:
  explicit Deadly(std::uint64_t last, io::Syscalls& real = io::posix_syscalls())
      : ForwardingSyscalls(real), last_(last) {}

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  /// From here on it looks after each call how much of a file system is in use.
  void watch(std::filesystem::path place) { watched_ = std::move(place); }
  [[nodiscard]] std::uint64_t peak_bytes() const { return peak_bytes_; }

  int map(int fd, std::size_t size_bytes, std::byte*& memory) noexcept override {
    count();
    return ForwardingSyscalls::map(fd, size_bytes, memory);
  }

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    count();
    const std::int64_t result = call.make();
    struct statvfs figures {};
    if (!watched_.empty() && ::statvfs(watched_.c_str(), &figures) == 0) {
      const std::uint64_t bytes = (figures.f_blocks - figures.f_bfree) * figures.f_frsize;
      for (std::uint64_t peak = peak_bytes_;
           bytes > peak && !peak_bytes_.compare_exchange_weak(peak, bytes);) {
      }
    }
    return result;
  }

  void count() noexcept {
    if (++calls_ == last_) {
      ::kill(::getpid(), SIGKILL);
    }
  }

  const std::uint64_t last_;
  std::atomic<std::uint64_t> calls_{0};
  std::filesystem::path watched_;
  std::atomic<std::uint64_t> peak_bytes_{0};
};

}  // namespace cairn::flash
