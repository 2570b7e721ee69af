// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/checkpoint_view.hpp"

#include <algorithm>
#include <utility>

#include "cairn/base/error.hpp"

namespace cairn::tools {

CheckpointView::CheckpointView(CheckpointMetadata metadata) : metadata_(std::move(metadata)) {
  if (metadata_.uuid.empty()) {
    return;  // Files of other programs.
  }
  try {
    checkpoint_.emplace(store::CommittedDirectory::open(io::posix_syscalls(), path()));
    is_whole_ = true;
  } catch (const Error& error) {
    if (error.code() != Errc::not_committed) {
      throw;
    }
    checkpoint_.emplace(store::CommittedDirectory::open(io::posix_syscalls(), path().parent_path()));
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

}  // namespace cairn::tools
