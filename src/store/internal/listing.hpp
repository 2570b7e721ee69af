// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/store/reports.hpp"

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::store {

/// The checkpoints of a directory, those that readers find, in the order that `options` ask for. Changes nothing,
/// reads no data; blocks. Takes as long as there are entries and files in them: each entry is opened once.
///
/// Errors: as `scan_directory`. What is wrong with an entry is its `problem`.
[[nodiscard]] std::vector<FoundCheckpoint> list_checkpoints(io::Syscalls& syscalls,
                                                            const std::filesystem::path& root,
                                                            const ListOptions& options = {});

/// The same of a directory that is open.
[[nodiscard]] std::vector<FoundCheckpoint> list_checkpoints(const io::Directory& root,
                                                            const ListOptions& options = {});

/// Returns what `found` is opened by or, where a crash has displaced it, was, and will be once it is recovered; what
/// is being written, once it is committed.
///
/// Ownership: of `found`.
[[nodiscard]] std::string_view name_in_root(const FoundCheckpoint& found);

/// Returns whether an entry of a root is called as what Cairn keeps there besides checkpoints.
[[nodiscard]] bool is_called_like_ours(std::string_view name) noexcept;

/// Returns whether the name_in_root of `a` comes before that of `b`.
[[nodiscard]] bool is_before_by_name(const FoundCheckpoint& a, const FoundCheckpoint& b,
                                     NumbersInNames numbers);

/// A checkpoint, as far as its directory and a COMMIT in it say.
struct NamedCheckpoint {
  std::string name;   ///< What it is opened by.
  std::string entry;  ///< What its directory is called: "<name>.g2" of a second generation.
  /// Beside it there is nothing that saves or removals of it have made: no other generation, no temporary.
  bool is_alone = false;
  std::uint64_t inode = 0;  ///< As DirectoryEntry.
};

/// The checkpoints of a directory, ordered by the bytes of their names, without opening any: one look at each name.
/// Some may turn out to be damaged.
///
/// `earlier`: what an earlier call has returned. What is called as then, and is the same directory, is believed without
/// a look; what was put in its place is not.
/// Errors: as `scan_directory`.
[[nodiscard]] std::vector<NamedCheckpoint> list_names(const io::Directory& root,
                                                      std::span<const NamedCheckpoint> earlier = {});

/// Opens a directory of checkpoints.
///
/// Errors: Errc::not_found (no such directory); Errc::invalid_argument (`path` is a checkpoint itself); OS errors.
[[nodiscard]] io::Directory open_root(io::Syscalls& syscalls, const std::filesystem::path& path);

/// Returns whether there is a checkpoint at `path` that recovery would call committed.
///
/// Errors: Errc::unsupported_version (a checkpoint of a later format); Errc::invalid_argument (no path); what the
///         operating system says when it cannot be told.
[[nodiscard]] bool is_committed(io::Syscalls& syscalls, const std::filesystem::path& path);

}  // namespace cairn::store
