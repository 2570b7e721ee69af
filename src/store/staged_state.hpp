// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/internal/mutex.hpp"
#include "store/internal/memory_root.hpp"
#include "store/internal/parent_use.hpp"
#include "store/internal/staged_directory.hpp"

namespace cairn::store {

/// Holds what stands at the target of a save.
struct Current {
  std::string name;  ///< The highest generation that has a COMMIT, or whatever has the target's name.
  std::uint32_t generation = 1;
};

/// Errors: OS errors, also those of a later generation that cannot be read: a save below it would not be seen.
[[nodiscard]] std::optional<Current> find_current(const io::Directory& parent, const std::string& name);

/// Returns whether a directory has the files that every checkpoint has, sound or not.
[[nodiscard]] bool is_checkpoint(const io::Directory& directory);

/// Refuses a target that `overwrite` does not cover: anything that is not a checkpoint.
///
/// Errors: Errc::already_exists.
void require_replaceable(const io::Directory& parent, const Current& current, bool overwrite);

struct StagedDirectory::State {
  State(io::Engine& engine_, io::Directory parent_, io::Directory staged_)
      : engine(engine_), parent(std::move(parent_)), staged(std::move(staged_)) {}

  io::Engine& engine;
  std::shared_ptr<ParentUse> use;  ///< Of the directory, if the target was looked at; goes last.
  io::Directory parent;
  io::Directory staged;  ///< Still the same directory after the rename.
  StagedOptions options;
  std::filesystem::path target;
  std::string name;                     ///< Of the target.
  std::string staged_name;              ///< Of the temporary directory.
  Uuid uuid;                            ///< Of this writer: in the temporary name, and in its marks.
  Uuid checkpoint;                      ///< Of the checkpoint: the same, unless it is a copy.
  bool is_in_memory = false;            ///< It lies on a tmpfs.
  std::shared_ptr<MemoryRoot> memory;   ///< Its parent, where that is a root that this process fills.
  io::FileHandle reserve;               ///< A descriptor to give up when there is none left to clean up with.
  std::string abandonment_problem;      ///< What kept `abandon` from removing all.
  io::FileHandle owner;                 ///< Holds the lock on `.owner`.
  io::FileHandle marker;                ///< Likewise on `.uncommitted`, in marker mode.
  std::string marker_name;              ///< Of the final directory that marker mode has made.
  std::optional<io::Directory> marked;  ///< That directory.
  bool is_abandoned = false;            ///< Something of it may be gone: it cannot be published.
  bool is_settled = false;  ///< Published, or gone, or nobody knows: nothing may be removed any more.
  std::string retirement_problem;

  // The following are for a directory that was joined.
  bool is_joined = false;
  bool is_disputed = false;  ///< Other ranks still look at it: all but this rank's own files stays.
  std::uint32_t rank = 0;
  Mutex made_mutex;
  std::vector<std::string> made CAIRN_GUARDED_BY(made_mutex);  ///< Files of this rank, relative.
};

/// Creates, locks and fills a mark of ownership (`.owner` or `.uncommitted`); an empty handle when a recovery
/// was quicker.
[[nodiscard]] io::FileHandle claim(const io::Directory& directory, std::string_view owner_name,
                                   const Uuid& uuid);

/// `StagedDirectory::publish`.
void publish_staged(StagedDirectory::State& state, Manifest manifest, std::span<const io::FileDigest> digests,
                    std::span<const FileEntry> others);

/// `StagedDirectory::abandon` of one that was joined.
void abandon_joined(StagedDirectory::State& state) noexcept;

}  // namespace cairn::store
