// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "support/forwarding_syscalls.hpp"

namespace cairn::flash {

/// A system in which some calls fail.
class FailingCalls final : public testing::ForwardingSyscalls {
 public:
  explicit FailingCalls(std::filesystem::path below) : below_(std::move(below)) {}

  int map(int fd, std::size_t size_bytes, std::byte*& memory) noexcept override {
    return refuses_mappings ? -ENOMEM : ForwardingSyscalls::map(fd, size_bytes, memory);
  }

  std::atomic<bool> refuses_mappings{false};
  std::atomic<int> refusal{0};             ///< The error of the directory that it was made with; 0: it works.
  std::atomic<const char*> full{nullptr};  ///< Files below it that cannot be written: of this name; "": all.
  std::atomic<bool> hangs{false};          ///< Each call that is about that directory.
  std::atomic<bool> hangs_late{false};     ///< Of those the ones that sync a file.
  std::atomic<bool> is_hanging{false};     ///< Somebody waits for it.

 private:
  [[nodiscard]] bool is_about(const testing::PassingCall& call) const {
    return is_below(call.fd) ||
           (call.name != nullptr && std::string_view(call.name).starts_with(below_.native()));
  }
  [[nodiscard]] bool is_below(int fd, const std::string& name = {}) const {
    std::error_code ignored;
    const auto file = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored);
    return file.native().starts_with(below_.native()) && (name.empty() || file.filename() == name);
  }

  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    if (const char* const name = full;
        name != nullptr && call.kind == testing::CallKind::write && is_below(call.fd, name)) {
      return -ENOSPC;
    }
    const auto is_to_hang = [&] {
      return hangs || (hangs_late && call.kind == testing::CallKind::sync_data);
    };
    if (is_to_hang() && is_about(call)) {
      while (is_to_hang()) {
        is_hanging = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    if (refusal != 0 && call.kind == testing::CallKind::allocate && is_below(call.fd)) {
      return -refusal;
    }
    return call.make();
  }

  const std::filesystem::path below_;
};

}  // namespace cairn::flash
