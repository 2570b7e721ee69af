// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <thread>

#include "cairn/base/error.hpp"

#include "io/internal/syscalls.hpp"

namespace cairn::io {

/// Returns `result`, or throws it as an error of the operating system when it is negative.
inline int require(int result, std::string_view operation, const std::filesystem::path& path) {
  if (result < 0) {
    throw_errno(-result, operation, path);
  }
  return result;
}

/// Returns whether a file system, or a kernel, has no such call or no such way of it.
inline bool is_unsupported(int result) noexcept {
  return result == -EINVAL || result == -ENOSYS || result == -EOPNOTSUPP;
}

/// Repeats a call that a signal interrupts (a bounded number of times, so that no fault makes it hang).
template <class Call>
auto uninterrupted(Call call) noexcept {
  auto result = call();
  for (int attempt = 0; result == -EINTR && attempt < 1000; ++attempt) {
    result = call();
  }
  return result;
}

/// Returns whether a file is known to lie on a file system that no other machine shares.
inline bool is_of_this_machine(Syscalls& syscalls, int fd) noexcept {
  const int found = uninterrupted([&] { return syscalls.file_system(fd); });
  return found >= 0 && found != static_cast<int>(FileSystem::network);
}

/// As `uninterrupted`, for what cannot be done twice: an interrupted call may have done it all the same, and then the
/// next one answers `done`.
template <class Call>
int done_at_last(int done, Call call) noexcept {
  const int first = call();
  if (first != -EINTR) {
    return first;
  }
  const int result = uninterrupted(call);
  return result == done ? 0 : result;
}

/// How often a transfer is asked for without progress.
inline constexpr int kMostTransferAttempts = 100;

/// How long to wait before a transfer that was put off (EAGAIN) is asked for once more: not at all at first, then ever
/// longer. All pauses together take about a second: a shortage that lasts longer is reported.
inline std::chrono::microseconds pause_before(int attempt) noexcept {
  constexpr int kAtOnce = 10;
  constexpr int kDoublings = 7;
  constexpr std::chrono::microseconds kShortest{80};
  if (attempt < kAtOnce) {
    return std::chrono::microseconds(0);
  }
  return kShortest * (1 << std::min(attempt - kAtOnce, kDoublings));
}

/// As `uninterrupted`, for transfers: those may also be put off (EAGAIN).
template <class Call>
auto moved_at_last(Call call) noexcept {
  auto result = uninterrupted(call);
  for (int attempt = 1; result == -EAGAIN && attempt < kMostTransferAttempts; ++attempt) {
    std::this_thread::sleep_for(pause_before(attempt));
    result = uninterrupted(call);
  }
  return result;
}

}  // namespace cairn::io
