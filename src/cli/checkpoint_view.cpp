// SPDX-License-Identifier: Apache-2.0
#include "cli/checkpoint_view.hpp"

#include <algorithm>
#include <utility>

#include "cairn/base/error.hpp"

#include "cli/describe.hpp"
#include "cli/paths.hpp"

namespace cairn::cli {
namespace {

bool is_absence(const Error& error) {
  return error.code() == Errc::not_committed || error.code() == Errc::not_found;
}

}  // namespace

bool is_checkpointable(const std::filesystem::path& path) {
  try {
    const auto checkpoint = store::CommittedDirectory::open(io::posix_syscalls(), parent_of(path));
    const auto& entries = checkpoint.manifest().checkpointables;
    return std::any_of(entries.begin(), entries.end(),
                       [name = name_of(path)](const auto& entry) { return entry.directory == name; });
  } catch (const Error& error) {
    if (is_absence(error) || error.code() == std::errc::permission_denied) {
      return false;  // Who may not look into a directory may be given what is in it.
    }
    throw;
  }
}

CheckpointView::CheckpointView(std::filesystem::path path, const std::string& name)
    : path_(std::move(path)), metadata_(describe(path_, name)) {
  try {
    checkpoint_.emplace(store::CommittedDirectory::open(io::posix_syscalls(), path_));
    is_whole_ = true;
    return;
  } catch (const Error& error) {
    if (!is_absence(error)) {
      throw;
    }
  }
  if (is_checkpointable(path_)) {
    checkpoint_.emplace(store::CommittedDirectory::open(io::posix_syscalls(), parent_of(path_)));
  }
}

std::optional<std::map<std::string, store::FileEntry>> CheckpointView::files(std::string_view name) const {
  if (is_foreign()) {
    return std::nullopt;
  }
  const store::Manifest& manifest = checkpoint_->manifest();
  const auto entry = std::find_if(manifest.checkpointables.begin(), manifest.checkpointables.end(),
                                  [name](const auto& each) { return each.name == name; });
  std::map<std::string, store::FileEntry> files;
  if (entry != manifest.checkpointables.end()) {
    const std::string prefix = entry->directory + "/";
    for (const store::FileEntry& file : manifest.files) {
      if (file.path.starts_with(prefix)) {
        files.emplace(file.path.substr(prefix.size()), file);
      }
    }
  }
  return files;
}

std::string CheckpointView::read(const store::FileEntry& file, std::size_t max_bytes) const {
  return checkpoint_->read_verified(file.path, max_bytes);
}

}  // namespace cairn::cli
