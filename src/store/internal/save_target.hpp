// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/parent_use.hpp"

namespace cairn::store {

/// Where a checkpoint is to be saved: a directory, held open, and a name in it.
struct SaveTarget {
  std::filesystem::path path;  ///< Without a slash at its end.
  std::string name;
  io::Directory parent;
  io::FileId directory;            ///< The parent's, whatever path led to it.
  std::shared_ptr<ParentUse> use;  ///< Of a target that was looked at; else null.
  bool is_in_memory = false;       ///< The directory lies on a tmpfs.
};

/// The path of a checkpoint that is to be made, without a slash at its end. Asks nobody.
///
/// Errors: Errc::invalid_argument when it does not end in a name that a checkpoint may have.
[[nodiscard]] std::filesystem::path target_path(const std::filesystem::path& path);

/// Opens the directory of a target. Blocks.
///
/// Errors: Errc::invalid_argument (no name that a checkpoint may have), Errc::not_found (no parent); OS errors pass
///         through.
[[nodiscard]] SaveTarget open_target(io::Syscalls& syscalls, const std::filesystem::path& path);

/// As `open_target`; nothing when the directory is missing, and the save that makes up to `create_parents` levels may
/// make it.
///
/// Errors: as `look_at_target`.
[[nodiscard]] std::optional<SaveTarget> open_target_if_made(io::Syscalls& syscalls,
                                                            const std::filesystem::path& path,
                                                            unsigned create_parents);

/// Opens the directory of a target, and looks once whether the name is free there, or may be replaced. Blocks, but
/// only for a few questions; what changes afterwards is found when the checkpoint is staged and published.
///
/// Makes up to `create_parents` levels of directories that are missing; `use` makes them durable, and removes them.
/// Errors: as `open_target`, naming the first directory that is missing; Errc::already_exists; Errc::invalid_argument
///         where a directory would have to be made in a checkpoint.
[[nodiscard]] SaveTarget look_at_target(io::Syscalls& syscalls, const std::filesystem::path& path,
                                        bool overwrite, unsigned create_parents = 0);

}  // namespace cairn::store
