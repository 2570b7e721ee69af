// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "store/internal/recovery.hpp"

namespace cairn::cli {

/// Something in a directory of checkpoints that is or was Cairn's.
struct Listed {
  std::string name;       ///< A checkpoint is opened by it; one of a later generation has it, too.
  std::string directory;  ///< What it is called in the directory.
  store::EntryClass kind = store::EntryClass::committed;  ///< As `recover` has it.
  std::uint32_t generation = 1;
  std::string committed;
  std::uint64_t checkpointables = 0;
  std::uint64_t bytes = 0;
  bool is_open = false;    ///< Its COMMIT and manifest agree: its files can be verified.
  bool is_hidden = false;  ///< A later generation has its name.
  std::string why;         ///< What recovery says of it.
  std::string problem;     ///< Why it cannot be read; empty when it can, and for what does not count.

  /// Whether it counts as a checkpoint, and is not what a save has left or is writing.
  [[nodiscard]] bool counts() const;
  /// Whether it can be tried to be opened; else it is listed only.
  [[nodiscard]] bool is_openable() const;
};

/// What lies in a directory of checkpoints and is or was Cairn's, in the order of names.
///
/// Errors: those of `store::survey`. What is wrong with an entry is its `problem`.
[[nodiscard]] std::vector<Listed> find_checkpoints(const std::filesystem::path& path);

/// Whether a directory without checkpoints may be the root of some: not one that has lost parts of its own.
[[nodiscard]] bool may_be_root(const std::filesystem::path& path);

}  // namespace cairn::cli
