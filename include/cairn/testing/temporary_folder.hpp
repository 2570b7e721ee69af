// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace cairn::testing {

/// A folder for the files of a test, removed with all that is in it.
///
/// Errors: OS errors of mkdtemp.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cairn-conformance-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) {
      throw std::system_error(errno, std::system_category(), pattern);
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cairn::testing
