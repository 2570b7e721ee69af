// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "cairn/base/error.hpp"

namespace cairn::io {

/// Returns `result`, or throws it as an error of the operating system when it is negative.
inline int require(int result, std::string_view operation, const std::filesystem::path& path) {
  if (result < 0) {
    throw_errno(-result, operation, path);
  }
  return result;
}

/// Whether a file system, or a kernel, has no such call or no such way of it.
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

/// As `uninterrupted`, for transfers: those may also be put off (EAGAIN).
template <class Call>
auto moved_at_last(Call call) noexcept {
  auto result = call();
  for (int attempt = 0; (result == -EINTR || result == -EAGAIN) && attempt < 1000; ++attempt) {
    result = call();
  }
  return result;
}

}  // namespace cairn::io
