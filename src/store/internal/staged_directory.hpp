// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/internal/chunk_hash.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/file.hpp"
#include "io/internal/new_file.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/new_checkpoint.hpp"
#include "store/internal/save_target.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// Where a checkpoint with this identifier is written before it becomes `target`: "<parent>/.tmp-<name>-<uuid>".
[[nodiscard]] std::filesystem::path temporary_path(const std::filesystem::path& target, const Uuid& uuid);

/// Refuses a target in the directory of a checkpoint, however deep: it would go with that one's next overwrite.
/// Directories are climbed by "..", not by the text of the path, which may lead through links.
///
/// Errors: Errc::invalid_argument.
void require_outside_checkpoints(const io::Directory& parent, const std::filesystem::path& target);

/// A new checkpoint in a temporary directory next to its target that becomes the target in one step, or leaves no
/// trace.
///
/// Invariant: until `publish` has renamed it, nothing at the target changes.
/// Only data files are written through the engine.
class StagedDirectory final : public NewCheckpoint {
 public:
  /// Creates `.tmp-<name>-<uuid>` next to `target`, marked as ours and locked while this object
  /// lives.
  ///
  /// The parent of `target` must exist: a mistyped path must not make directories.
  /// Errors: Errc::invalid_argument (no usable last component, or a target in the directory of a checkpoint),
  ///         Errc::not_found (no parent),
  ///         Errc::already_exists (target exists and is not to be, or may not be, replaced); OS
  ///         errors pass through (EACCES, EROFS, ENOSPC, ENOTDIR).
  static StagedDirectory create(io::Engine& engine, const std::filesystem::path& target,
                                StagedOptions options = {});
  /// The same in a directory that is open already.
  static StagedDirectory create(io::Engine& engine, SaveTarget target, StagedOptions options = {});

  /// Opens the directory that rank 0 has made for a save of several ranks: by its uuid, which its mark must have,
  /// too. Rank 0 holds the lock, and alone publishes.
  ///
  /// Errors: Errc::not_found when it cannot be seen here, Errc::malformed_metadata when it is of another save; OS
  ///         errors pass through.
  static StagedDirectory join(io::Engine& engine, SaveTarget target, JoinOptions options);

  /// Abandons what was not published.
  ~StagedDirectory() override;
  StagedDirectory(StagedDirectory&& other) noexcept;
  StagedDirectory& operator=(StagedDirectory&&) = delete;

  [[nodiscard]] const std::filesystem::path& target() const noexcept;
  [[nodiscard]] const std::filesystem::path& path() const noexcept;  ///< The temporary directory.
  [[nodiscard]] const Uuid& uuid() const noexcept;

  [[nodiscard]] const io::Directory* directory() const noexcept override;
  void make_directory(std::string_view name) override;
  std::unique_ptr<io::NewFile> create_file(std::string_view relative,
                                           const io::NewFileOptions& options = {}) override;
  /// Errors: Errc::malformed_metadata when the file lies in no directory; those of link(2).
  [[nodiscard]] bool link_file(std::string_view relative, const io::Directory& from) override;
  void adopt(std::string_view relative) override;
  /// Rank 0 has made the directory of the tables, so nothing new ever lies next to its mark.
  [[nodiscard]] std::vector<FileEntry> prepare(std::span<const io::FileDigest> digests) override;
  void hand_over() noexcept override;
  void take_back() noexcept override;
  /// It moves the temporary directory away, so that rank 0 can publish it no more, and looks at what it has moved:
  /// its own, or what the new checkpoint has replaced. Then, and where there was none, it looks for the checkpoint,
  /// and syncs the parent itself. What was moved away stays for other ranks to see, and for recovery to remove.
  /// Errors: Errc::commit_unknown also in marker mode.
  [[nodiscard]] LoneVerdict decide_alone() override;

  /// Steps:
  /// 1. see that the files of other ranks are there; write and sync `chunks.xxh3`, `checkpoint.json`, `COMMIT`; sync
  ///    every directory, innermost first;
  /// 2. rename to the target; 3. sync the parent; 4. retire what was replaced (never fails the save).
  /// Errors: Errc::commit_unknown when the sync after the rename fails, or when the rename fails and nobody can see
  ///         whether it was done all the same. Errc::peer_lost when other ranks have decided that it is aborted,
  ///         because they have heard nothing of this one.
  void publish(Manifest manifest, std::span<const io::FileDigest> digests,
               std::span<const FileEntry> others = {}) override;
  [[nodiscard]] const std::string& retirement_problem() const noexcept override;
  void abandon() noexcept override;
  [[nodiscard]] const std::string& abandonment_problem() const noexcept override;

  struct State;

 private:
  explicit StagedDirectory(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::store
