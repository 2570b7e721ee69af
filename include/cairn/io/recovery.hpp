// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/io/syscalls.hpp"

namespace cairn::io {

/// What recovery takes an entry of the root for.
enum class EntryClass : std::uint8_t {
  committed,  ///< A checkpoint whose COMMIT and manifest agree and whose files are all there, in
              ///< size.
  damaged,    ///< A checkpoint that is not: kept, and reported.
  live,       ///< Being written by somebody who is, or may be, alive: kept.
  abandoned,  ///< The temporary directory of a writer that is gone: removed.
  retired,    ///< A checkpoint that was replaced or deleted: removed.
  foreign,    ///< Not ours: never touched.
};

struct RecoveryEntry {
  std::string name;
  EntryClass kind = EntryClass::foreign;
  bool is_removed = false;
  std::string note;  ///< Why, or what stopped the removal.
};

struct RecoveryReport {
  std::vector<RecoveryEntry> entries;  ///< Sorted by name.
};

struct RecoveryOptions {
  RecoveryOptions() = default;

  /// Classify only; change nothing.
  bool dry_run = false;
  /// Also remove temporaries made on other machines of a shared file system, where locks prove
  /// little. Only for callers who know that no other machine writes here.
  bool other_hosts = false;
};

/// Cleans a directory of checkpoints after a crash.
///
/// Syncs the directory before it trusts what it sees, and again before it removes anything: an old
/// checkpoint never goes before the one that replaced it is durable. Idempotent; may itself be
/// interrupted anywhere. Symbolic links are foreign and are not followed. Blocks. Errors:
/// Errc::not_found (no such directory); OS errors on the directory itself. What cannot be removed
///         is reported, not thrown.
RecoveryReport recover(Syscalls& syscalls, const std::filesystem::path& root, RecoveryOptions options = {});

}  // namespace cairn::io
