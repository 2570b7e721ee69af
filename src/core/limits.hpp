// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace cairn::core {

/// Where the limits of a process are read from: what tests replace.
struct LimitSources {
  LimitSources() = default;

  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroup = "/sys/fs/cgroup";
  /// Of setrlimit(2); nothing means that of this process.
  std::optional<std::uint64_t> open_files;
};

/// How many descriptors this process may still open.
[[nodiscard]] std::size_t free_descriptors(const LimitSources& sources = {});

/// Half of those, so that the program and other contexts keep their share; but a few in any case.
[[nodiscard]] std::size_t default_open_files(const LimitSources& sources = {});

}  // namespace cairn::core
