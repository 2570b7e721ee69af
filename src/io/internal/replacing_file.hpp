// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "io/internal/file.hpp"
#include "io/internal/write_behind.hpp"

namespace cairn::io {

/// A new file that takes a name, and the place of what has it, when it is complete and durable.
///
/// 1. It is made as `.<name>-<16 digits>.tmp` beside the name, and locked, which says that its writer lives.
/// 2. `append` writes it.
/// 3. `publish` syncs it, renames it over the name, and syncs the directory: at every instant readers find the whole
///    old file or the whole new one.
///
/// One that is dropped before is removed. What crashed writers of the same name have left, which nobody has locked, is
/// removed when the next one is made. Where files cannot be locked nothing is.
/// Threads: one at a time.
class ReplacingFile {
 public:
  /// Creates the temporary file; the directory must be there. Blocks.
  ///
  /// Errors: Errc::invalid_argument for a path without a name; OS errors pass through.
  ReplacingFile(Syscalls& syscalls, const std::filesystem::path& path);
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;
  ~ReplacingFile();

  /// Removes what crashed writers of the name have left, when no file of that name is to be made.
  static void remove_left_over(Syscalls& syscalls, const std::filesystem::path& path);

  /// Writes to its end; as WriteBehind.
  void append(std::span<const std::byte> bytes) { contents_->append(bytes); }

  /// Call it once, after all has been written. An error of the directory's sync leaves the new file under its name.
  ///
  /// Errors: OS errors pass through.
  void publish();

 private:
  ReplacingFile(Directory directory, const std::filesystem::path& path);
  void remove_left_over() const;
  [[nodiscard]] bool try_create();

  Directory directory_;
  std::filesystem::path path_;
  std::string begin_;      ///< Of the names of temporary files.
  std::string temporary_;  ///< Empty: there is none, or none any more.
  FileHandle file_;
  std::optional<WriteBehind> contents_;  ///< Refers to the file.
};

}  // namespace cairn::io
