// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cairn/store/reports.hpp"

namespace cairn::store {

/// When a checkpoint was committed, as the clock of its writer had it.
using CommitTime = std::chrono::sys_time<std::chrono::nanoseconds>;

/// What comes first in a list of checkpoints, the oldest, and what last, the newest.
enum class CheckpointOrder : std::uint8_t {
  by_name,  ///< Digits count as numbers: "step-9" before "step-10".
  by_time,  ///< By the time of the commit, then by name. Those without one come first.
};

/// Something in a directory of checkpoints.
struct FoundCheckpoint {
  std::string name;  ///< What it is opened by in its root; of what cannot be opened, what it is called there.
  std::filesystem::path path;  ///< The root and the name: for loads, removals and saves that overwrite.
  EntryClass kind = EntryClass::committed;  ///< As recovery sees it.
  std::string committed;  ///< As CheckpointMetadata::committed; empty when it cannot be told.
  std::optional<CommitTime>
      commit_time;  ///< The same for programs, with nanoseconds where they were recorded.
  std::uint64_t checkpointables = 0;
  std::uint64_t bytes = 0;         ///< In its files.
  std::string annotations = "{}";  ///< As CheckpointMetadata::annotations.
  std::uint32_t generation = 0;    ///< The generation of a sound checkpoint; else 0. See docs/reliability.md.
  std::string entry;               ///< What its directory is called: "<name>.g2" of a second generation.
  bool is_hidden = false;  ///< A committed one that readers do not find: a later generation has its name.
  bool is_open = false;    ///< Its COMMIT and manifest agree: its files can be verified.
  std::string note;        ///< What recovery says of it; empty as a rule.
  std::string problem;     ///< Why a checkpoint cannot be loaded, with its path; empty when it can.

  /// Returns whether it can be loaded, as far as can be told without reading data.
  [[nodiscard]] bool is_sound() const noexcept {
    return kind == EntryClass::committed && !is_hidden && problem.empty();
  }
  /// Returns whether it is a checkpoint, sound or not: not what a save has left or is writing, no older
  /// generation.
  [[nodiscard]] bool counts() const noexcept;
};

struct ListOptions {
  ListOptions() = default;

  CheckpointOrder order = CheckpointOrder::by_name;
  /// Also what cannot be loaded and is or was Cairn's: damaged and displaced checkpoints, older generations, what
  /// saves are writing or have left.
  bool everything = false;
};

}  // namespace cairn::store
