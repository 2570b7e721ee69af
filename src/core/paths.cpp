// SPDX-License-Identifier: Apache-2.0
#include "core/internal/paths.hpp"

#include <system_error>

#include "cairn/base/error.hpp"

#include "io/internal/file.hpp"

namespace cairn::core {

std::filesystem::path absolute_path(const std::filesystem::path& path) {
  io::require_path(path);
  if (path.is_absolute()) {
    return path;
  }
  std::error_code failure;
  const std::filesystem::path current = std::filesystem::current_path(failure);
  if (failure) {
    throw_errno(failure.value(), "find the current directory, below which lies", path);
  }
  return current / path;
}

}  // namespace cairn::core
