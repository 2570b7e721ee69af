// SPDX-License-Identifier: Apache-2.0
#include "cli/paths.hpp"

#include "base/internal/printable.hpp"
#include "io/internal/file.hpp"

namespace cairn::cli {

std::string path_text(const std::filesystem::path& path) {
  return printable(path.string());
}

std::string name_of(const std::filesystem::path& path) {
  return io::named_path(path).filename().string();
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  const std::filesystem::path named = io::named_path(path);
  return named.has_parent_path() ? named.parent_path() : std::filesystem::absolute(named).parent_path();
}

}  // namespace cairn::cli
