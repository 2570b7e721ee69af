// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "io/internal/file.hpp"

namespace cairn::io {

/// Writes a new file from its begin to its end, in pieces. Those of a large file go past the page cache where the file
/// system can do that: several at once, by threads, while the caller makes the next ones. So the disk begins early, and
/// nothing is copied into the page cache. It holds 16 MiB at most.
///
/// Threads: one at a time.
/// Errors:  OS errors pass through; that of a piece may come with a later call. Nothing but destruction works then.
class WriteBehind {
 public:
  /// Ownership: `directory`, and `file`, which is `name` there, must stay valid. `path` is for errors.
  WriteBehind(const Directory& directory, std::string name, const FileHandle& file,
              std::filesystem::path path);
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;
  /// Waits for what is on its way.
  ~WriteBehind();

  void append(std::span<const std::byte> bytes);
  /// Writes what is left. All is with the kernel then, and a sync makes it durable.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::io
