// SPDX-License-Identifier: Apache-2.0
#include "support/temp_dir.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "cairn/base/error.hpp"

namespace cairn::testing {

TempDir::TempDir() : TempDir(std::filesystem::temp_directory_path()) {}

TempDir::TempDir(const std::filesystem::path& above) {
  std::string pattern = above / "cairn-test-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw_errno(errno, "mkdtemp", pattern);
  }
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(Errc::not_found, path.string());
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) {
    throw Error(Errc::io_failure, path.string());
  }
}

std::vector<std::string> list_tree(const std::filesystem::path& root) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    names.push_back(entry.path().lexically_relative(root));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cairn::testing
