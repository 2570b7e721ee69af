// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/internal/file.hpp"

namespace cairn::store {

/// A directory above a target that was missing.
struct MadeLevel {
  io::Directory parent;
  std::string name;
  bool is_own = true;  ///< This process has made it, and may remove it; else another was quicker.
};

/// The part of one save in the directory that holds its target: those saves of this process that are under way in one directory
/// share what they have made for it. When the last of them ends, and none has committed, what was made and is empty goes.
///
/// Every call blocks.
/// Threads: each is used by one save; different ones concurrently.
class ParentUse {
 public:
  /// Joins those that use the directory called `id`. `levels` are those that were missing, outermost first. Null when the
  /// directory has just been removed by those that used it before.
  static std::shared_ptr<ParentUse> join(io::FileId id, std::vector<MadeLevel>&& levels);

  ~ParentUse();
  ParentUse(const ParentUse&) = delete;
  ParentUse& operator=(const ParentUse&) = delete;

  /// Makes durable the names of what was missing, whichever save of this process has made it.
  ///
  /// Errors: OS errors pass through.
  void sync();

  /// A checkpoint is in the directory: it stays.
  void keep() noexcept;

  /// How often this process has removed a directory that it had made.
  [[nodiscard]] static std::uint64_t removals() noexcept;

 private:
  struct Shared;

  explicit ParentUse(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
};

/// Removes of `levels` what this process has made and is empty, the innermost first. What cannot be removed stays.
void remove_empty_levels(const std::vector<MadeLevel>& levels) noexcept;

}  // namespace cairn::store
