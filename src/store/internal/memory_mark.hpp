// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/internal/file.hpp"

namespace cairn::store {

inline constexpr std::string_view kMemoryMarkName = ".cairn-memory";
inline constexpr std::size_t kMaxMarkBytes = 16 << 10;

/// How steps are called on disk, as by a StepFormat.
struct StepNames {
  std::string prefix;
  std::uint64_t width = 0;
  friend bool operator==(const StepNames&, const StepNames&) = default;
};

/// What a directory in memory says of itself, in `.cairn-memory`: it holds the images of a run, in a root for each
/// rank. Written by whoever is first, and by each program that fills it where it has something else to say.
struct MemoryMark {
  MemoryMark() = default;

  std::string run;                ///< Random; the directory of its steps on disk has it, too.
  std::filesystem::path root;     ///< That directory: where images are persisted.
  std::uint64_t limit_bytes = 0;  ///< Most memory of all ranks; 0: none is set.
  std::uint32_t ranks = 1;
  std::string step_zero = "0";  ///< What step 0 would be called on disk: for versions that know no `names`.
  /// The first is that of new steps; others count, too. Empty where a version that knows none has written it.
  std::vector<StepNames> names;
  friend bool operator==(const MemoryMark&, const MemoryMark&) = default;
};

[[nodiscard]] std::string encode_mark(const MemoryMark& mark);
/// Errors: Errc::malformed_metadata; Errc::unsupported_version for a later format. Both name `path`.
[[nodiscard]] MemoryMark parse_mark(std::string_view text, const std::filesystem::path& path);

/// Reads the mark of the memory that a root lies in. Nothing where the directory above the root has none, or that is
/// another user's.
///
/// Errors: as parse_mark; OS errors.
[[nodiscard]] std::optional<MemoryMark> read_mark_above(const io::Directory& root);

/// Returns whether files of a checkpoint that is removed may become those of another one: it lies in a root in a memory
/// that has a mark, whosever that is.
[[nodiscard]] bool may_be_reused(const io::Directory& checkpoint) noexcept;

/// Returns whether a directory, or file, lies on a tmpfs.
[[nodiscard]] bool lies_in_memory(io::Syscalls& syscalls, int fd) noexcept;

}  // namespace cairn::store
