// SPDX-License-Identifier: Apache-2.0
#include "cli/listing.hpp"

#include <system_error>

#include <algorithm>
#include <array>
#include <string_view>

#include "store/internal/listing.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::cli {

std::vector<store::FoundCheckpoint> find_checkpoints(const std::filesystem::path& path) {
  store::ListOptions options;
  options.everything = true;
  return store::list_checkpoints(io::posix_syscalls(), path, options);
}

bool may_be_root(const std::filesystem::path& path) {
  const std::array<std::string_view, 3> own = {store::kCommitName, store::kManifestName, store::kChunksName};
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) &&
         std::none_of(own.begin(), own.end(), [&](std::string_view name) {
           return std::filesystem::exists(std::filesystem::symlink_status(path / name, ignored));
         });
}

}  // namespace cairn::cli
