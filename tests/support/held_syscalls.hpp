// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cairn/async/event.hpp"
#include "cairn/io/syscalls.hpp"

#include "support/forwarding_syscalls.hpp"

namespace cairn::testing {

/// A kind of call that can be held.
enum class Held : std::uint8_t { open, read, write, sync_data, sync, make_directory, rename, unlink };

/// The operating system, but calls of one kind are held, before they are done, until they are let go: a disk that answers when
/// the test says so.
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
  /// Whether a call is held within ten seconds.
  [[nodiscard]] bool holds(int calls = 1) const {
    for (int i = 0; i < 10000 && held_ < calls; ++i) {
      static_cast<void>(async::Event().wait_for(std::chrono::milliseconds(1)));
    }
    return held_ >= calls;
  }

  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    pass(Held::open);
    return ForwardingSyscalls::open_at(directory, path, flags, mode);
  }
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    pass(Held::open);
    return ForwardingSyscalls::open_beneath(directory, path, flags, mode);
  }
  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    pass(Held::read, size);
    return ForwardingSyscalls::read_at(fd, data, size, offset);
  }
  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override {
    pass(Held::write, size);
    return ForwardingSyscalls::write_at(fd, data, size, offset);
  }
  int sync_data(int fd) noexcept override {
    pass(Held::sync_data);
    return ForwardingSyscalls::sync_data(fd);
  }
  int sync(int fd) noexcept override {
    pass(Held::sync);
    return ForwardingSyscalls::sync(fd);
  }
  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override {
    pass(Held::make_directory);
    return ForwardingSyscalls::make_directory_at(directory, name, mode);
  }
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    pass(Held::rename);
    return ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
  }
  int unlink_at(int directory, const char* name, bool is_directory) noexcept override {
    pass(Held::unlink);
    return ForwardingSyscalls::unlink_at(directory, name, is_directory);
  }

 private:
  void pass(Held kind, std::size_t bytes = 0) noexcept {
    if (is_holding_ && kind == kind_ && bytes >= least_bytes_ && left_-- > 0) {
      ++held_;
      gate_.get();
    }
  }

  std::atomic<Held> kind_{Held::open};
  std::atomic<bool> is_holding_{false};
  std::atomic<int> left_{0};
  std::atomic<std::size_t> least_bytes_{0};
  std::atomic<int> held_{0};
  const async::Event gate_;
};

}  // namespace cairn::testing
