// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/internal/file.hpp"

namespace cairn::store {

/// The use that one save makes of a directory above its target. The saves of this process that are under way in one
/// directory share what is known of it: whether one of them has made it, and whether its name is durable. When the
/// last of them ends, and none has committed below it, a directory that was made and is empty goes.
///
/// A directory that was made holds a use of the one above it, so levels go the innermost first, and none that others
/// still need. Every call blocks.
/// Threads: each is used by one save; different ones concurrently.
class ParentUse {
 public:
  /// A directory that was missing when the save looked.
  struct Made {
    std::shared_ptr<const io::Directory> parent;
    std::string name;
    bool is_own = true;  ///< This process has made it, and may remove it; else another was quicker.
    std::shared_ptr<ParentUse> above;  ///< Of the parent.
  };

  /// Joins those that use the directory called `id`. Null when it has just been removed by those that used it before.
  static std::shared_ptr<ParentUse> join(io::FileId id);
  /// The same for one that was missing.
  static std::shared_ptr<ParentUse> join(io::FileId id, Made made);

  ~ParentUse();
  ParentUse(const ParentUse&) = delete;
  ParentUse& operator=(const ParentUse&) = delete;

  /// Makes durable the names of what was missing, here and above, whichever save of this process has made it.
  ///
  /// Errors: OS errors pass through.
  void sync();

  /// A checkpoint is in the directory: it stays, and so do those above.
  void keep() noexcept;

  /// How often this process has removed a directory that it had made.
  [[nodiscard]] static std::uint64_t removals() noexcept;

 private:
  struct Shared;

  explicit ParentUse(std::shared_ptr<Shared> shared) noexcept;

  std::shared_ptr<Shared> shared_;
};

}  // namespace cairn::store
