// SPDX-License-Identifier: Apache-2.0
#include "support/lying_renames.hpp"

#include <system_error>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;

fs::path path_of(int directory, const char* name) {
  return fs::read_symlink(fmt::format("/proc/self/fd/{}", directory)) / name;
}

}  // namespace

int LyingRenames::rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                            io::RenameMode mode) noexcept {
  const bool is_publication = old_name[0] == '.' && new_name[0] != '.';
  if (!is_publication) {
    return ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
  }
  if (lie_ == RenameLie::forgotten) {
    return 0;
  }
  raise_the_dead();
  try {
    bury(path_of(old_directory, old_name), path_of(new_directory, new_name));
  } catch (const fs::filesystem_error&) {  // Then it fails in truth.
  }
  return -EIO;
}

void LyingRenames::bury(const fs::path& directory, const fs::path& target) {
  const std::lock_guard lock(mutex_);
  const fs::path copy = target.parent_path() / fmt::format(".undead-{}-{}", fmt::ptr(this), ++buried_);
  fs::copy(directory, copy, fs::copy_options::recursive);
  fs::remove(copy / ".owner");
  copy_ = copy;
  target_ = target;
}

void LyingRenames::raise_the_dead() noexcept {
  const std::lock_guard lock(mutex_);
  if (copy_.empty()) {
    return;
  }
  std::error_code ignored;
  fs::remove_all(target_, ignored);
  fs::rename(copy_, target_, ignored);
  fs::remove_all(std::exchange(copy_, {}), ignored);
}

}  // namespace cairn::testing
