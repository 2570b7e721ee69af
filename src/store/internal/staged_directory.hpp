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
#include <vector>

#include "io/internal/chunk_hash.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/file.hpp"
#include "io/internal/new_file.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/save_target.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// How a finished directory becomes visible.
enum class CommitMode : std::uint8_t {
  automatic,  ///< By rename; by marker where the file system has no rename that refuses to replace.
  marker,     ///< COMMIT is linked last into a directory that has its final name already.
};

/// Says what `publish` does, in this order.
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
  std::uint32_t directory_mode = io::kDirectoryMode;
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
  /// Asked by `publish` right before a checkpoint is replaced, which it holds then (CheckpointLock): nobody can keep
  /// it, or remove it, until it is replaced. What it throws keeps the old one, and fails `publish`. May be asked
  /// again, as `may_publish`. Empty: nothing is held.
  std::function<void()> before_replacing;
  /// Asked while somebody else holds it: waits a while and returns whether to try again. Empty: no.
  std::function<bool()> wait_for_lock;
};

/// How another rank than rank 0 takes part in a save.
struct JoinOptions {
  JoinOptions() = default;

  Uuid uuid;               ///< Of the save, as rank 0 has it.
  std::uint32_t rank = 1;  ///< This one.
  CommitMode commit_mode = CommitMode::automatic;
  /// Asked when what rank 0 has made cannot be seen here yet (network file systems): waits a while and returns
  /// whether to look again. Empty: no.
  std::function<bool()> look_again;
};

/// Says what a rank has found out that has heard no verdict.
enum class LoneVerdict : std::uint8_t {
  aborted,    ///< The save never becomes visible.
  committed,  ///< The checkpoint is visible, and durable.
};

/// Where a checkpoint with this identifier is written before it becomes `target`: "<parent>/.tmp-<name>-<uuid>".
[[nodiscard]] std::filesystem::path temporary_path(const std::filesystem::path& target, const Uuid& uuid);

/// Refuses a target in the directory of a checkpoint, however deep: it would go with that one's next overwrite.
/// Directories are climbed by "..", not by the text of the path, which may lead through links.
///
/// Errors: Errc::invalid_argument.
void require_outside_checkpoints(const io::Directory& parent, const std::filesystem::path& target);

/// A checkpoint while it is being written: a temporary directory next to its target that becomes the
/// target in one step, or leaves no trace.
///
/// Invariant: until `publish` has renamed it, nothing at the target changes.
/// Every call here blocks: call it on a worker thread. Only data files are written through the engine.
/// Threads: `make_directory` and `create_file` may be called concurrently; the rest not.
class StagedDirectory {
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
  ~StagedDirectory();
  StagedDirectory(StagedDirectory&& other) noexcept;
  StagedDirectory& operator=(StagedDirectory&&) = delete;

  [[nodiscard]] const std::filesystem::path& target() const noexcept;
  [[nodiscard]] const std::filesystem::path& path() const noexcept;  ///< The temporary directory.
  [[nodiscard]] const Uuid& uuid() const noexcept;
  [[nodiscard]] const io::Directory& directory() const noexcept;

  /// Makes a sub-directory; `publish` syncs it with all below it.
  void make_directory(std::string_view name);
  std::unique_ptr<io::NewFile> create_file(std::string_view relative, const io::NewFileOptions& options = {});
  /// Enters a file that was made past this: `abandon` of a joined directory removes it, too.
  void adopt(std::string_view relative);

  /// For a joined directory: makes durable what this rank has made, before it says so to rank 0. Its files are synced
  /// already; this writes and syncs its table of chunk hashes, and syncs every directory in which it has made names.
  /// Returns what rank 0 needs to know. `digests` are sorted by path. Rank 0 has made the directory of the tables, so
  /// nothing new ever lies next to its mark.
  [[nodiscard]] std::vector<FileEntry> prepare(std::span<const io::FileDigest> digests);
  /// For a joined directory: rank 0 is about to hear that this rank is prepared, so it may publish. `abandon` does
  /// nothing any more, until `take_back`.
  void hand_over() noexcept;
  /// The save is known to have been aborted.
  void take_back() noexcept;
  /// For a joined directory that was handed over, when rank 0 cannot be heard: lets the disk decide what has become
  /// of it.
  ///
  /// It moves the temporary directory away, so that rank 0 can publish it no more, and looks at what it has moved:
  /// its own, or what the new checkpoint has replaced. Then, and where there was none, it looks for the checkpoint,
  /// and syncs the parent itself. What was moved away stays for other ranks to see, and for recovery to remove.
  /// Errors: Errc::commit_unknown when the disk does not say; also in marker mode.
  [[nodiscard]] LoneVerdict decide_alone();

  /// Makes the checkpoint durable and then visible. Returns only when both are sure.
  ///
  /// Fills in `uuid`, `generation` and `files` (from `digests`, in their order; with files of other ranks, which have
  /// prepared them, all sorted by path). Steps:
  /// 1. see that the files of other ranks are there; write and sync `chunks.xxh3`, `checkpoint.json`, `COMMIT`; sync
  ///    every directory, innermost first;
  /// 2. rename to the target; 3. sync the parent; 4. retire what was replaced (never fails the save).
  /// Errors: Errc::commit_unknown when the sync after the rename fails, or when the rename fails and nobody can see
  ///         whether it was done all the same: the checkpoint may be visible or not, and durable or not, and nothing
  ///         is removed. After any other error nothing is visible and the old checkpoint stands:
  ///         Errc::cancelled when `may_publish` says no; Errc::already_exists when another writer was first; OS
  ///         errors pass through.
  void publish(Manifest manifest, std::span<const io::FileDigest> digests,
               std::span<const FileEntry> others = {});

  /// Returns what kept `publish` from removing the checkpoint that was replaced; empty when nothing did. The
  /// rest is left to `recover`.
  [[nodiscard]] const std::string& retirement_problem() const noexcept;

  /// Removes what was made, as far as possible; does nothing after `publish`. The rest is left to `recover`; who
  /// calls again tries again. Of a joined directory only what this rank has made, unless rank 0 has let go of it.
  void abandon() noexcept;

  /// Returns what kept the last `abandon` from removing all; empty when nothing did.
  [[nodiscard]] const std::string& abandonment_problem() const noexcept;

  struct State;

 private:
  explicit StagedDirectory(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::store
