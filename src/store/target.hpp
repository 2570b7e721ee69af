// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "io/internal/file.hpp"

namespace cairn::store {

/// The path of a checkpoint that is to be made or removed.
struct Target {
  std::filesystem::path path;  ///< Without a slash at its end.
  std::filesystem::path parent;
  std::string name;
};

/// Errors: Errc::invalid_argument when `path` does not end in a name that a checkpoint may have.
[[nodiscard]] Target parse_target(const std::filesystem::path& path);

/// Errors: Errc::not_found when there is no such directory; OS errors pass through.
[[nodiscard]] io::Directory open_parent(io::Syscalls& syscalls, const Target& target);

}  // namespace cairn::store
