// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/internal/file.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::store {

/// Holds what lies in a checkpoint's directory and is not the checkpoint's: never removed.
struct Foreign {
  std::vector<std::string> paths;  ///< The first ones, relative; of a whole tree its top.
  std::size_t count = 0;
};

/// "'plots', 'notes.txt' and 3 more".
[[nodiscard]] std::string listed(const Foreign& foreign);

/// Returns whether directly in a checkpoint Cairn keeps a file of that name: COMMIT, say.
[[nodiscard]] bool is_own_file(std::string_view name) noexcept;

/// Returns whether a directory holds nothing but files of that kind, and directories without a file in them.
[[nodiscard]] bool holds_only_own_files(const io::Directory& directory);

/// In marker mode a COMMIT may be visible while its name is not durable; nor are its bytes, where there are no hard
/// links.
///
/// Errors: OS errors pass through.
void sync_commit(const io::Directory& directory);

/// In which order a power cut may undo a removal.
enum class RemovalOrder {
  any,
  /// The files that a manifest lists are gone for good before it goes: whatever is left can be told to be ours. Costs
  /// a sync.
  durable,
};

/// Removes the files that `manifest` lists, the directories that are empty then, and our own few files; COMMIT last:
/// until then recovery knows the directory as a checkpoint's. Returns what else is there. What is gone already is
/// not an error.
///
/// The files that the manifest lists are removed by `remove`; without one they are unlinked.
/// Errors: OS errors pass through: what was not reached is still there.
Foreign remove_checkpoint_files(const io::Directory& directory, const Manifest& manifest,
                                RemovalOrder order = RemovalOrder::any, const io::RemoveFile& remove = {});

}  // namespace cairn::store
