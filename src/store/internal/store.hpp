// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "io/internal/engine.hpp"
#include "io/internal/new_file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/new_checkpoint.hpp"
#include "store/internal/source.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// The place of a checkpoint that is to be saved, once it was looked at. Every call blocks.
class Destination {
 public:
  virtual ~Destination() = default;

  /// Saves of one directory and name are saves of one target, whatever paths led there.
  [[nodiscard]] virtual io::FileId directory() const noexcept = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns where its files will lie; in memory they may be filled.
  [[nodiscard]] virtual io::Medium medium() const { return io::Medium::disk; }

  /// Begins the checkpoint. Called once, as `join`.
  ///
  /// Errors: Errc::already_exists; OS errors.
  [[nodiscard]] virtual std::unique_ptr<NewCheckpoint> create(io::Engine& engine, StagedOptions options) = 0;
  /// Finds the checkpoint that rank 0 has begun.
  ///
  /// Errors: Errc::not_found when it cannot be seen here; OS errors.
  [[nodiscard]] virtual std::unique_ptr<NewCheckpoint> join(io::Engine& engine, JoinOptions options) = 0;
};

/// Finds checkpoints, and where new ones go, by their paths. Every call blocks, unless it says otherwise.
///
/// Threads: const methods may run concurrently.
class Store {
 public:
  virtual ~Store() = default;

  /// As store::open_source.
  [[nodiscard]] virtual std::shared_ptr<const Source> open(io::Syscalls& syscalls,
                                                           const std::filesystem::path& path,
                                                           const std::string& known_manifest = {}) const = 0;
  /// As store::open_committed_source.
  [[nodiscard]] virtual std::shared_ptr<const Source> open_committed(
      io::Syscalls& syscalls, const std::filesystem::path& path) const = 0;
  /// Looks whether a checkpoint may be saved to `path`, which target_path has given; as store::look_at_target.
  [[nodiscard]] virtual std::unique_ptr<Destination> look(io::Syscalls& syscalls,
                                                          const std::filesystem::path& path, bool overwrite,
                                                          unsigned create_parents) const = 0;
  /// Looks where rank 0 saves; null when that is missing, and rank 0 may still make it; as
  /// store::open_target_if_made.
  [[nodiscard]] virtual std::unique_ptr<Destination> find(io::Syscalls& syscalls,
                                                          const std::filesystem::path& path,
                                                          unsigned create_parents) const = 0;
  /// Returns the directory in which a checkpoint with this identifier is written; nothing where there is none. Asks
  /// nobody.
  [[nodiscard]] virtual std::optional<std::filesystem::path> staged_path(const std::filesystem::path& path,
                                                                         const Uuid& uuid) const = 0;
};

/// Returns the store of the file system.
[[nodiscard]] const Store& directory_store() noexcept;

}  // namespace cairn::store
