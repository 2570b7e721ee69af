// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/save_target.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// The directory in which the parts of a checkpoint lie until it is put together (".partial-<name>", next to it), while somebody works in it: a
/// mark in it is locked meanwhile.
///
/// Every call blocks. OS errors pass through.
class PartsDirectory {
 public:
  /// Nothing when there is none.
  ///
  /// Errors: EBUSY: somebody else works in it.
  static std::optional<PartsDirectory> open(SaveTarget target);
  /// Makes it where there is none; its name is durable then.
  ///
  /// Errors: as `open`; Errc::invalid_argument: the target lies in the directory of a checkpoint.
  static PartsDirectory make(SaveTarget target);

  [[nodiscard]] const io::Directory& directory() const noexcept { return directory_; }

  /// Removes it with all that is in it: after a crash at any moment either all of it is there, or nothing that anybody takes for parts, and
  /// recovery removes the rest.
  void remove(const RandomSource& random);

 private:
  PartsDirectory(io::Directory parent, std::string name, io::Directory directory);

  io::Directory parent_;
  std::string name_;
  io::Directory directory_;
  io::FileHandle mark_;
};

}  // namespace cairn::store
