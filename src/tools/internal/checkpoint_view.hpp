// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/core/load.hpp"

#include "store/internal/committed_directory.hpp"

namespace cairn::tools {

/// A checkpoint that is looked at, or one of two that are compared: what it says of itself, and its files.
class CheckpointView {
 public:
  /// Errors: what keeps the checkpoint that was described from being opened.
  explicit CheckpointView(CheckpointMetadata metadata);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return metadata_.path; }
  [[nodiscard]] const CheckpointMetadata& metadata() const noexcept { return metadata_; }
  /// Returns whether this is all of a checkpoint, and not a part of one or files of other programs.
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }
  [[nodiscard]] bool is_foreign() const noexcept { return !checkpoint_; }

  /// The files of a checkpointable, by their paths in its directory; nothing when they are foreign.
  [[nodiscard]] std::optional<std::map<std::string, store::FileEntry>> files(std::string_view name) const;
  /// Reads and verifies one of them.
  /// Errors: as CommittedDirectory::read_verified.
  [[nodiscard]] std::string read(const store::FileEntry& file, std::size_t max_bytes) const;

 private:
  CheckpointMetadata metadata_;
  bool is_whole_ = false;
  std::optional<store::CommittedDirectory> checkpoint_;
};

}  // namespace cairn::tools
