// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::testing {

/// Where every Linux has a tmpfs.
inline constexpr const char* kSharedMemory = "/dev/shm";

/// A fresh directory under the system's temporary folder, or another one, removed with all it holds at the end.
class TempDir {
 public:
  TempDir();
  explicit TempDir(const std::filesystem::path& above);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Reads a whole file; throws when it cannot.
std::string read_text(const std::filesystem::path& path);

/// Writes a whole file, replacing what was there.
void write_text(const std::filesystem::path& path, std::string_view text);

/// The paths of everything below `root`, relative to it, sorted.
std::vector<std::string> list_tree(const std::filesystem::path& root);

}  // namespace cairn::testing
