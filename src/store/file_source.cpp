// SPDX-License-Identifier: Apache-2.0
#include "store/internal/file_source.hpp"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/internal/check.hpp"
#include "store/commit_record.hpp"
#include "store/names.hpp"

namespace cairn::store {
namespace {

/// Returns whether a directory is a checkpoint, sound or not; what may not be looked into is not.
bool holds_checkpoint(const io::Directory& parent, const std::string& name) {
  try {
    return has_commit(parent.open_directory(name));
  } catch (const Error&) {
    return false;
  }
}

/// Returns whether a file of others says by its name that it lists the files of a model.
bool lists_others(const std::string& name) {
  return name.ends_with(".json") && name.find(".index.") != std::string::npos;
}

[[noreturn]] void throw_not_committed(const std::filesystem::path& path) {
  throw Error(Errc::not_committed,
              fmt::format("{} is a temporary directory, not a committed checkpoint", path.string()));
}

}  // namespace

std::shared_ptr<const FileSource> FileSource::open(io::Syscalls& syscalls, const std::filesystem::path& given,
                                                   const std::string& known_manifest) {
  const std::filesystem::path path = io::named_path(std::filesystem::absolute(given));
  std::shared_ptr<FileSource> source(new FileSource);
  try {
    source->committed_.emplace(CommittedDirectory::open(syscalls, path, known_manifest));
  } catch (const Error& error) {
    // What has a manifest is a checkpoint that lost its COMMIT, not a folder of somebody else's.
    std::error_code ignored;
    if (error.code() != Errc::not_committed || std::filesystem::exists(path / kManifestName, ignored)) {
      throw;
    }
  }
  if (source->committed_) {
    source->path_ = source->committed_->path();
    for (const CheckpointableEntry& entry : source->committed_->manifest().checkpointables) {
      source->items_.push_back({entry.name, entry.handler_id, entry.directory});
    }
    return source;
  }
  if (has_reserved_prefix(path.filename().string()) ||
      has_reserved_prefix(path.parent_path().filename().string())) {
    throw_not_committed(path);
  }
  if (auto item = open_item(syscalls, path, known_manifest)) {
    return item;
  }
  return open_foreign(syscalls, path);
}

std::shared_ptr<const FileSource> FileSource::open_item(io::Syscalls& syscalls,
                                                        const std::filesystem::path& path,
                                                        const std::string& known_manifest) {
  std::shared_ptr<FileSource> source(new FileSource);
  try {
    source->committed_.emplace(CommittedDirectory::open(syscalls, path.parent_path(), known_manifest));
  } catch (const Error& error) {
    // Who may not look into a directory may be given what is in it.
    if (error.code() == Errc::not_committed || error.code() == Errc::not_found ||
        error.code() == std::errc::permission_denied) {
      return nullptr;
    }
    throw;
  }
  for (const CheckpointableEntry& entry : source->committed_->manifest().checkpointables) {
    if (entry.directory == path.filename()) {
      source->path_ = path;
      source->items_.push_back({entry.name, entry.handler_id, entry.directory});
      return source;
    }
  }
  return nullptr;
}

std::shared_ptr<const FileSource> FileSource::open_foreign(io::Syscalls& syscalls,
                                                           const std::filesystem::path& path) {
  std::shared_ptr<FileSource> source(new FileSource);
  source->path_ = path;
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  const bool is_list = !is_directory && lists_others(path.filename().string());
  source->foreign_.emplace(is_directory ? io::Directory::open(syscalls, path)
                           : is_list    ? io::Directory::open(syscalls, path.parent_path())
                                        : io::Directory::enter(syscalls, path.parent_path()));
  if (!is_directory) {
    source->named_file_ = path.filename();
    source->add_foreign(source->named_file_);
    if (const auto broken = source->broken_links_.begin(); broken != source->broken_links_.end()) {
      throw Error(Errc::not_found, broken->second);
    }
    if (source->foreign_files_.empty()) {
      throw Error(Errc::not_found, fmt::format("{} is not a regular file", path.string()));
    }
  }
  if (is_directory || is_list) {
    source->add_folder();
  }
  source->items_.push_back({kStateName, "", ""});
  return source;
}

void FileSource::add_folder() {
  for (const io::DirectoryEntry& entry : foreign_->list()) {
    if (named_file_.empty() && entry.kind == io::FileKind::directory &&
        holds_checkpoint(*foreign_, entry.name)) {
      throw Error(Errc::not_committed, fmt::format("{} is not a checkpoint, it holds some, such as '{}'",
                                                   path_.string(), entry.name));
    }
    add_foreign(entry.name);
  }
}

void FileSource::add_foreign(const std::string& name) {
  const auto status = foreign_->status(name);
  if (status && status->kind == io::FileKind::regular) {
    foreign_files_.emplace(name, status->size_bytes);
  } else if (status && status->kind == io::FileKind::symlink) {
    add_link(name);
  }
}

void FileSource::add_link(const std::string& name) {
  try {
    const io::FileHandle file = foreign_->open_linked_file(name);
    io::FileStatus status;
    if (const int result = io::uninterrupted([&] { return file.syscalls().status(file.fd(), status); });
        result < 0) {
      throw_errno(-result, "stat", path_ / name);
    }
    foreign_files_.emplace(name, status.size_bytes);
    links_.insert(name);
  } catch (const Error& error) {
    broken_links_.emplace(
        name, error.detail());  // Thrown when it is requested; most folders have links that are never read.
  }
}

std::vector<std::string> FileSource::files(std::string_view directory) const {
  std::vector<std::string> names;
  if (!committed_) {
    for (const auto& [name, bytes] : foreign_files_) {
      names.push_back(name);
    }
    return names;
  }
  return committed_->files_below(directory);
}

std::optional<std::uint64_t> FileSource::file_bytes(std::string_view relative) const {
  if (committed_) {
    const FileEntry* entry = committed_->find(relative);
    return entry == nullptr ? std::nullopt : std::optional(entry->size_bytes);
  }
  if (const auto broken = broken_links_.find(relative); broken != broken_links_.end()) {
    throw Error(Errc::not_found, broken->second);
  }
  const auto found = foreign_files_.find(relative);
  return found == foreign_files_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::uint32_t> FileSource::writer_of(std::string_view relative) const {
  if (!committed_ || committed_->manifest().world_size < 2) {
    return std::nullopt;
  }
  const FileEntry* entry = committed_->find(relative);
  return entry == nullptr ? std::nullopt : std::optional(entry->rank);
}

io::FileHandle FileSource::open_file(std::string_view relative, int flags) const {
  if (committed_) {
    return committed_->open_file(relative, flags);
  }
  return links_.contains(relative) ? foreign_->open_linked_file(relative, flags)
                                   : foreign_->open_file(relative, flags);
}

std::optional<io::FileDigest> FileSource::digest(std::string_view relative) const {
  return committed_ ? std::optional(committed_->digest(relative)) : std::nullopt;
}

}  // namespace cairn::store
