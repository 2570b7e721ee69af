// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace cairn {

/// Where the limits of a process are read from: what tests replace.
struct LimitSources {
  LimitSources() = default;

  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroup = "/sys/fs/cgroup";
  /// Of setrlimit(2); nothing means those of this process.
  std::optional<std::uint64_t> open_files;
  std::optional<std::uint64_t> address_space;
};

/// The most memory that this process may have: the machine's, or less where a control group (version 1 or 2) above
/// it, or a limit of its own on addresses or data, is smaller.
[[nodiscard]] std::uint64_t memory_limit(const LimitSources& sources = {});

/// A quarter of that: the state that is saved is in memory, too, and so is the rest of the program.
[[nodiscard]] std::size_t default_staging_bytes(const LimitSources& sources = {});

/// Half of the memory: what a file is unpacked to at most, unless the caller says otherwise.
[[nodiscard]] std::uint64_t default_unpacked_bytes(const LimitSources& sources = {});

/// How many descriptors this process may still open.
[[nodiscard]] std::size_t free_descriptors(const LimitSources& sources = {});

/// Half of those, so that the program and other contexts keep their share; but a few in any case.
[[nodiscard]] std::size_t default_open_files(const LimitSources& sources = {});

}  // namespace cairn
