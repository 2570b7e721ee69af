// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/internal/chunk_hash.hpp"
#include "io/internal/file.hpp"
#include "io/internal/new_file.hpp"
#include "store/internal/manifest.hpp"
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
  /// Identifies the checkpoint where it is a copy of another, which has the same; its temporary directory has a uuid of
  /// its own.
  std::optional<Uuid> original;
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
  /// Asked while somebody else holds it: waits a while and returns whether to try again. What it throws fails
  /// `publish`. Empty: no.
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

/// A checkpoint while it is being written. What was not published when it goes away is abandoned.
///
/// Every call here blocks: call it on a worker thread.
/// Threads: `make_directory`, `create_file` and `adopt` may be called concurrently; the rest not.
class NewCheckpoint {
 public:
  virtual ~NewCheckpoint() = default;

  /// Returns the directory that it is written in, into which handlers may write past this; null where there is none.
  [[nodiscard]] virtual const io::Directory* directory() const noexcept { return nullptr; }

  /// Makes a sub-directory; `publish` makes it durable with all below it.
  virtual void make_directory(std::string_view name) = 0;
  /// Creates a file, and directories below that of its checkpointable.
  ///
  /// Errors: OS errors pass through: EEXIST, ENOSPC, EDQUOT, EFBIG.
  [[nodiscard]] virtual std::unique_ptr<io::NewFile> create_file(std::string_view relative,
                                                                 const io::NewFileOptions& options) = 0;
  /// Gives a file of another checkpoint, which lies in this directory, a second name here. Returns false where that
  /// cannot be: who wants it copies it.
  ///
  /// Errors: OS errors.
  [[nodiscard]] virtual bool link_file(std::string_view /*relative*/, const io::Directory& /*from*/) {
    return false;
  }
  /// Enters a file that was made past this: `abandon` of a joined checkpoint removes it, too.
  virtual void adopt(std::string_view relative) = 0;

  /// For a joined checkpoint: makes durable what this rank has made, before it says so to rank 0. Its files are synced
  /// already; this writes its table of chunk hashes. Returns what rank 0 needs to know. `digests` are sorted by path.
  [[nodiscard]] virtual std::vector<FileEntry> prepare(std::span<const io::FileDigest> digests) = 0;
  /// For a joined checkpoint: rank 0 is about to hear that this rank is prepared, so it may publish. `abandon` does
  /// nothing any more, until `take_back`.
  virtual void hand_over() noexcept = 0;
  /// The save is known to have been aborted.
  virtual void take_back() noexcept = 0;
  /// For a joined checkpoint that was handed over, when rank 0 cannot be heard: lets what is stored decide what has
  /// become of it.
  ///
  /// Errors: Errc::commit_unknown when that does not say.
  [[nodiscard]] virtual LoneVerdict decide_alone() = 0;

  /// Makes the checkpoint durable and then visible. Returns only when both are sure.
  ///
  /// Fills in `uuid`, `generation` and `files` (from `digests`, in their order; with files of other ranks, which have
  /// prepared them, all sorted by path). Of what `files` holds before, only the ranks are kept: a copy says by it who
  /// wrote a file.
  /// Errors: Errc::commit_unknown: the checkpoint may be visible or not, and durable or not, and nothing is removed.
  ///         After any other error nothing is visible and the old checkpoint stands: Errc::cancelled when
  ///         `may_publish` says no; Errc::already_exists when another writer was first; OS errors pass through.
  virtual void publish(Manifest manifest, std::span<const io::FileDigest> digests,
                       std::span<const FileEntry> others) = 0;
  /// Returns what kept `publish` from removing the checkpoint that was replaced; empty when nothing did. The
  /// rest is left to `recover`.
  [[nodiscard]] virtual const std::string& retirement_problem() const noexcept = 0;

  /// Removes what was made, as far as possible; does nothing after `publish`. The rest is left to `recover`; who
  /// calls again tries again. Of a joined checkpoint only what this rank has made, unless rank 0 has let go of it.
  virtual void abandon() noexcept = 0;
  /// Returns what kept the last `abandon` from removing all; empty when nothing did.
  [[nodiscard]] virtual const std::string& abandonment_problem() const noexcept = 0;

 protected:
  NewCheckpoint() = default;
  NewCheckpoint(NewCheckpoint&&) noexcept = default;
};

}  // namespace cairn::store
