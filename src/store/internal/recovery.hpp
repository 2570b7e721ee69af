// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "cairn/store/reports.hpp"

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::store {

/// Says what each entry of a directory of checkpoints is, and what `recover` would do with it. Changes nothing; blocks.
///
/// Errors: as `recover`.
[[nodiscard]] RecoveryReport scan_directory(io::Syscalls& syscalls, const std::filesystem::path& path,
                                            RecoveryOptions options = {});

/// Cleans a directory of checkpoints after a crash.
///
/// The last sound checkpoint of a name is removed by nothing but a removal that was asked for: what was replaced goes
/// when the checkpoint that has replaced it is sound, and is put back or kept otherwise.
/// Syncs the directory before it trusts what it sees, and again before it removes anything: an old
/// checkpoint never goes before the one that replaced it is durable. Idempotent; may itself be
/// interrupted anywhere. Symbolic links are foreign and are not followed. Blocks.
///
/// Errors: Errc::not_found (no such directory); Errc::invalid_argument (`path` is a checkpoint itself); OS errors on
///         the directory itself. What cannot be removed is reported, not thrown.
RecoveryReport recover(io::Syscalls& syscalls, const std::filesystem::path& path,
                       RecoveryOptions options = {});
/// The same of a directory that is open, wherever its path leads by now.
RecoveryReport recover(io::Directory root, RecoveryOptions options = {});

/// Removes what saves have left that were cut short with their processes: those of this host and this boot, whose lock
/// is free. On a file system of several machines the rest proves nothing, and is for `recover`. `is_wanted` is asked
/// about the name that a checkpoint was to get. What cannot be looked at or removed stays.
///
/// Errors: OS errors on the directory itself.
void remove_left_by_dead_processes(const io::Directory& root,
                                   const std::function<bool(std::string_view name)>& is_wanted);

}  // namespace cairn::store
