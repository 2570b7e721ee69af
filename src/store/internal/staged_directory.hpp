// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/internal/chunk_hash.hpp"
#include "io/internal/durable_file.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/file.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/save_target.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// How a finished directory becomes visible.
enum class CommitMode : std::uint8_t {
  automatic,  ///< By rename; by marker where the file system has no rename that refuses to replace.
  marker,     ///< COMMIT is linked last into a directory that has its final name already.
};

/// What `publish` does, in this order.
enum class PublishStep : std::uint8_t {
  describe,          ///< `chunks.xxh3`, `checkpoint.json` and COMMIT are written.
  sync_directories,  ///< Every directory, innermost first.
  make_visible,      ///< The rename; in marker mode, COMMIT is linked.
  sync_parent,       ///< What is left then is to retire what was replaced.
};

struct StagedOptions {
  StagedOptions() = default;

  /// Replace a committed checkpoint instead of failing. The old one stays until the new one is
  /// durable.
  bool overwrite = false;
  std::uint32_t directory_mode = 0777;
  CommitMode commit_mode = CommitMode::automatic;
  /// Identifies the checkpoint and its temporary directory; empty: made from `random`.
  std::optional<Uuid> uuid;
  RandomSource random = system_random;
  /// Told by `publish` when a step has ended (the first two may come twice). Must not throw.
  std::function<void(PublishStep)> on_step;
  /// Asked by `publish` right before the checkpoint may become visible: before each rename that publishes, and
  /// before COMMIT is linked (marker mode). It may be asked again where the first way to publish is not
  /// available. False: `publish` stops with Errc::cancelled and nothing is visible. Empty: yes.
  /// Called on the thread that publishes, with nothing locked; must not throw.
  std::function<bool()> may_publish;
  /// Asked by `publish` after the parent is synced, before anything of what was replaced is touched; once for each
  /// checkpoint that was replaced. False: that one is left as it is, for recovery to remove, and
  /// `retirement_problem` says so. Empty: yes. Called as `may_publish` is; must not throw.
  std::function<bool()> may_retire;
};

/// Where a checkpoint with this identifier is written before it becomes `target`: "<parent>/.tmp-<name>-<uuid>".
[[nodiscard]] std::filesystem::path temporary_path(const std::filesystem::path& target, const Uuid& uuid);

/// A checkpoint while it is being written: a temporary directory beside its target that becomes the
/// target in one step, or leaves no trace.
///
/// Invariant: until `publish` has renamed it, nothing at the target changes.
/// Every call here blocks: call it on a worker thread. Only data files are written through the engine.
/// Threads: `make_directory` and `create_file` may be called concurrently; the rest not.
class StagedDirectory {
 public:
  /// Creates `.tmp-<name>-<uuid>` beside `target`, marked as ours and locked while this object
  /// lives.
  ///
  /// The parent of `target` must exist: a mistyped path shall not make directories.
  /// Errors: Errc::invalid_argument (no usable last component, or a target in the directory of a checkpoint),
  ///         Errc::not_found (no parent),
  ///         Errc::already_exists (target exists and is not to be, or may not be, replaced); OS
  ///         errors pass through (EACCES, EROFS, ENOSPC, ENOTDIR).
  static StagedDirectory create(io::Engine& engine, const std::filesystem::path& target,
                                StagedOptions options = {});
  /// The same in a directory that is open already.
  static StagedDirectory create(io::Engine& engine, SaveTarget target, StagedOptions options = {});

  /// Abandons what was not published.
  ~StagedDirectory();
  StagedDirectory(StagedDirectory&& other) noexcept;
  StagedDirectory& operator=(StagedDirectory&&) = delete;

  [[nodiscard]] const std::filesystem::path& target() const noexcept;
  [[nodiscard]] const std::filesystem::path& path() const noexcept;  ///< The temporary directory.
  [[nodiscard]] const Uuid& uuid() const noexcept;
  [[nodiscard]] const io::Directory& directory() const noexcept;

  /// Makes a sub-directory; `publish` syncs it with all below it.
  void make_directory(std::string_view name);
  io::DurableFile create_file(std::string_view relative, io::DurableFileOptions options = {});

  /// Makes the checkpoint durable and then visible. Returns only when both are sure.
  ///
  /// Fills in `uuid`, `generation` and `files` (from `digests`, in their order). Steps:
  /// 1. write and sync `chunks.xxh3`, `checkpoint.json`, `COMMIT`; sync every directory, innermost first;
  /// 2. rename to the target; 3. sync the parent; 4. retire what was replaced (never fails the save).
  /// Errors: Errc::commit_unknown when the sync after the rename fails, or when the rename fails and nobody can see
  ///         whether it was done all the same: the checkpoint may be visible or not, and durable or not, and nothing
  ///         is removed. After any other error nothing is visible and the old checkpoint stands:
  ///         Errc::cancelled when `may_publish` says no; Errc::already_exists when another writer was first; OS
  ///         errors pass through.
  void publish(Manifest manifest, std::span<const io::FileDigest> digests);

  /// What kept `publish` from removing the checkpoint that was replaced; empty when nothing did. The rest is
  /// left to `recover`.
  [[nodiscard]] const std::string& retirement_problem() const noexcept;

  /// Removes what was made, as far as possible; does nothing after `publish`. The rest is left to
  /// `recover`.
  void abandon() noexcept;

  /// What kept `abandon` from removing all; empty when nothing did.
  [[nodiscard]] const std::string& abandonment_problem() const noexcept;

  struct State;

 private:
  explicit StagedDirectory(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::store
