// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cairn/store/reports.hpp"

#include "io/internal/file.hpp"

namespace cairn::store {

/// An entry of a directory of checkpoints by which readers or a recovery find a checkpoint: now, or once others of its
/// name are gone.
struct CheckpointEntry {
  std::string checkpoint;  ///< The name that it belongs to: "100" of "100", "100.g2" and ".tmp-100-<uuid>".
  std::string entry;       ///< What it is called in the directory.
  EntryClass kind = EntryClass::committed;
  std::string note;  ///< What recovery says of it.
  bool is_leftover =
      false;  ///< It has a temporary name: an overwrite has replaced it, or a crash has displaced it.

  /// False where somebody writes it, or nobody can tell what it is.
  [[nodiscard]] bool is_movable() const noexcept {
    return kind != EntryClass::live && kind != EntryClass::unreadable;
  }
};

/// Returns the entries of a directory, in the order of the checkpoints' names. Of one checkpoint what readers
/// find comes last: where the entries are taken away in this order, a crash never leaves an older one in its
/// place, nor one that a recovery would put there.
///
/// Left out is what never becomes a checkpoint again: trash, and what a save that is dead has written. Changes nothing;
/// blocks.
/// Errors: as `scan_directory`.
[[nodiscard]] std::vector<CheckpointEntry> list_entries(const io::Directory& root);

/// Moves an entry to another directory under the same name, which must be free there. Durable when it returns; the
/// directories themselves must be durable before.
///
/// Errors: OS errors pass through: EEXIST or ENOTEMPTY when the name is taken. After any other it may be moved all the
///         same.
void move_entry(const io::Directory& from, const std::string& entry, const io::Directory& to);

}  // namespace cairn::store
