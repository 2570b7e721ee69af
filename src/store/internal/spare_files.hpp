// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/internal/mutex.hpp"
#include "io/internal/file.hpp"
#include "io/internal/remove_directory.hpp"

namespace cairn::store {

/// The smallest file that is filled where it lies, and is kept when it is removed: to map less takes longer than to
/// copy it once more.
inline constexpr std::uint64_t kMinFilledBytes = std::uint64_t{1} << 20;

/// The files of a root in memory that were removed, and whose memory the next ones get: fresh memory costs many times
/// what a copy does. They lie in `.cairn-spare` of the root, and mean nothing to anybody.
///
/// Only a regular file of this user that has one name, lies on the same file system and has all of its blocks is kept,
/// or used again; both times that is asked through its descriptor. A file that another checkpoint has, too, must not
/// change.
/// Every call blocks.
/// Threads: every method may be called from any thread; `take`, `make`, `trim` and `clear` only by who has the
///          ProgramClaim.
class SpareFiles {
 public:
  /// Opens those of a root. Null where it keeps none: it lies on no tmpfs, in no marked memory, or has no such
  /// directory; or that cannot be used.
  [[nodiscard]] static std::shared_ptr<SpareFiles> of(const io::Directory& root) noexcept;

  /// `limit_bytes`: as many are kept; 0: all.
  SpareFiles(io::Directory folder, std::uint64_t limit_bytes);

  /// Looks again which there are: other processes remove checkpoints, too.
  void look();
  /// Removes a file of the root: keeps it, if that may be, and there is room, else unlinks it.
  ///
  /// Errors: OS errors; ENOENT when it is gone.
  void remove(const io::Directory& directory, const std::string& name);
  /// Moves a file of `bytes` bytes, which may hold anything, to a name that is free; a larger one is cut. Returns
  /// nothing when there is none.
  ///
  /// Errors: OS errors of the cut.
  [[nodiscard]] std::optional<io::FileHandle> take(const io::Directory& to, const std::string& name,
                                                   std::uint64_t bytes,
                                                   const std::function<bool(io::FileId)>& is_in_use);
  /// Makes a file of `bytes` bytes, not 0, with all of its blocks; it belongs to the rest once `look` has found it.
  ///
  /// Errors: OS errors; then it is gone.
  [[nodiscard]] io::FileHandle make(const std::string& name, std::uint64_t bytes);
  /// Unlinks the largest until no more than these bytes are left. Returns whether any was unlinked.
  bool trim(std::uint64_t most_bytes);
  /// Unlinks all, also files that a killed process has begun to make and nobody can use. Nobody may be making one.
  void clear();
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  using Index = std::multimap<std::uint64_t, std::string>;  // By size.

  [[nodiscard]] bool is_reusable(const io::FileStatus& status) const;
  [[nodiscard]] bool keep(const io::Directory& directory, const std::string& name);
  void erase(Index::iterator file) CAIRN_REQUIRES(mutex_);

  const io::Directory folder_;
  const std::uint64_t limit_bytes_;
  const std::uint64_t device_;
  mutable Mutex mutex_;
  Index files_ CAIRN_GUARDED_BY(mutex_);
  std::uint64_t bytes_ CAIRN_GUARDED_BY(mutex_) = 0;
};

/// Returns how files of checkpoints in a root are removed; empty where they are unlinked.
[[nodiscard]] io::RemoveFile removing_from(const io::Directory& root);

}  // namespace cairn::store
