// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/checkpoint_view.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::tools {

VerifiedFile::VerifiedFile(const store::CommittedDirectory& checkpoint, const std::string& relative)
    : path_(checkpoint.path() / relative),
      file_(checkpoint.open_file(relative)),
      digest_(checkpoint.digest(relative)) {}

void VerifiedFile::read(std::uint64_t offset_bytes, std::span<std::byte> out) {
  if (offset_bytes > digest_.size_bytes || out.size() > digest_.size_bytes - offset_bytes) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{} ends before byte {}", path_, offset_bytes + out.size()));
  }
  while (!out.empty()) {
    const std::uint64_t begin = offset_bytes / io::kChunkBytes * io::kChunkBytes;
    if (begin_ != begin) {
      begin_.reset();  // Until its bytes are known to be right.
      chunk_.resize(std::min<std::uint64_t>(io::kChunkBytes, digest_.size_bytes - begin));
      io::read_all(file_, chunk_, begin, path_);
      io::verify_chunks(path_, begin, chunk_, digest_);
      begin_ = begin;
    }
    const auto from = std::span<const std::byte>(chunk_).subspan(offset_bytes - begin);
    const std::size_t bytes = std::min(from.size(), out.size());
    std::copy_n(from.begin(), bytes, out.begin());
    offset_bytes += bytes;
    out = out.subspan(bytes);
  }
}

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

ArrayReader CheckpointView::reader(const std::string& name, array_store::FileLayouts layouts) const {
  ArrayReaderOptions options;
  options.layout = is_foreign() ? metadata_.at(name).description().layout : std::string();
  options.layouts = std::move(layouts);
  return ArrayReader(path(), name, options);
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
