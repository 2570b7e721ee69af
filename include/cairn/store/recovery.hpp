// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/io/syscalls.hpp"

namespace cairn::store {

/// What recovery takes an entry of the root for.
enum class EntryClass : std::uint8_t {
  committed,   ///< A checkpoint whose COMMIT and manifest agree and whose files are all there, in
               ///< size.
  damaged,     ///< A checkpoint that is not: kept, and reported.
  unreadable,  ///< A directory that cannot be looked at, and may be a checkpoint: kept, and reported.
  displaced,   ///< A sound checkpoint under a temporary name that nothing has replaced: put back, or kept and
               ///< reported.
  live,        ///< Being written by somebody who is, or may be, alive: kept.
  abandoned,   ///< The temporary directory of a writer that is gone: removed.
  retired,     ///< A checkpoint that a sound one has replaced, or whose removal was asked for: removed.
  foreign,     ///< Not ours: never touched.
};

/// "committed", "damaged", …
[[nodiscard]] std::string_view name(EntryClass kind) noexcept;

/// What recovery does with an entry.
enum class RecoveryAction : std::uint8_t {
  keep,     ///< Nothing.
  unmark,   ///< A commit is finished: the mark of its writer, which a crash has left in it, goes.
  restore,  ///< A displaced checkpoint gets its name back.
  remove,   ///< What a crash has left goes. What is in a checkpoint and is not the checkpoint's stays.
};

/// "keep", "unmark", "restore", "remove".
[[nodiscard]] std::string_view name(RecoveryAction action) noexcept;

struct RecoveryEntry {
  std::string name;
  EntryClass kind = EntryClass::foreign;
  RecoveryAction action = RecoveryAction::keep;  ///< Decided before anything is done: the same in a dry run.
  std::uint32_t generation = 0;                  ///< Of a sound checkpoint; else 0.
  bool is_hidden = false;  ///< A committed one that readers do not find: a later generation has its name.
  bool is_removed = false;
  bool has_failed = false;  ///< The action was stopped.
  std::string note;         ///< Why, or what stopped the action.
};

struct RecoveryReport {
  std::vector<RecoveryEntry> entries;  ///< Sorted by name.
};

struct RecoveryOptions {
  RecoveryOptions() = default;

  /// Only decide; change nothing. A run after it decides the same, for as long as nobody changes the
  /// directory.
  bool dry_run = false;
  /// Also remove temporaries made on other machines of a shared file system, where locks prove
  /// little. Only for callers who know that no other machine writes here.
  bool other_hosts = false;
};

/// Says what each entry of a directory of checkpoints is, and what `recover` would do with it. Changes nothing; blocks.
///
/// Errors: as `recover`.
[[nodiscard]] RecoveryReport survey(io::Syscalls& syscalls, const std::filesystem::path& path,
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

}  // namespace cairn::store
