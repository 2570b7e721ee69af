// SPDX-License-Identifier: Apache-2.0
#include "store/internal/spare_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/names.hpp"

namespace cairn::store {
namespace {

io::FileStatus status_of(io::Syscalls& syscalls, int fd, const std::filesystem::path& path) {
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return syscalls.status(fd, status); }), "stat", path);
  return status;
}

}  // namespace

std::shared_ptr<SpareFiles> SpareFiles::of(const io::Directory& root) noexcept {
  if (!lies_in_memory(root.syscalls(), root.fd())) {
    return nullptr;
  }
  try {
    const std::optional<io::FileStatus> status = root.status(kSpareName);
    if (!status || status->kind != io::FileKind::directory) {
      return nullptr;
    }
    const std::optional<MemoryMark> mark = read_mark_above(root);
    return mark ? std::make_shared<SpareFiles>(root.open_directory(kSpareName), mark->limit_bytes) : nullptr;
  } catch (...) {  // Then files are unlinked, as elsewhere.
    CAIRN_PROBE("store.no_spare_files");
    return nullptr;
  }
}

SpareFiles::SpareFiles(io::Directory folder, std::uint64_t limit_bytes)
    : folder_(std::move(folder)),
      limit_bytes_(limit_bytes),
      device_(status_of(folder_.syscalls(), folder_.fd(), folder_.path()).id.device) {
  look();
}

void SpareFiles::look() {
  Index files;
  std::uint64_t bytes = 0;
  for (const io::DirectoryEntry& entry : folder_.list()) {
    const std::optional<io::FileStatus> status = folder_.status(entry.name);
    if (status && is_reusable(*status)) {
      files.emplace(status->size_bytes, entry.name);
      bytes += status->size_bytes;
    }
  }
  const MutexLock lock(mutex_);
  files_ = std::move(files);
  bytes_ = bytes;
}

bool SpareFiles::is_reusable(const io::FileStatus& status) const {
  return status.kind == io::FileKind::regular && status.links == 1 && status.user == ::geteuid() &&
         status.id.device == device_ && status.size_bytes >= kMinFilledBytes &&
         status.allocated_bytes >= status.size_bytes;
}

bool SpareFiles::keep(const io::Directory& directory, const std::string& name) {
  const io::FileHandle file = directory.open_file(name);
  const io::FileStatus status = status_of(file.syscalls(), file.fd(), directory.path() / name);
  const MutexLock lock(mutex_);
  if (!is_reusable(status) || (limit_bytes_ != 0 && bytes_ + status.size_bytes > limit_bytes_)) {
    return false;
  }
  std::string spare = fmt::format("{}", status.id.inode);
  directory.rename(name, folder_, spare, io::RenameMode::no_replace);
  files_.emplace(status.size_bytes, std::move(spare));
  bytes_ += status.size_bytes;
  CAIRN_ASSERT(limit_bytes_ == 0 || bytes_ <= limit_bytes_, "spare files take no more than the limit");
  return true;
}

void SpareFiles::remove(const io::Directory& directory, const std::string& name) {
  bool is_kept = false;
  try {
    is_kept = keep(directory, name);
  } catch (const Error&) {  // What cannot be kept is unlinked; what cannot be unlinked either says why.
    CAIRN_PROBE("store.spare_file_not_kept");
  }
  if (!is_kept) {
    directory.remove_file(name);
  }
}

void SpareFiles::erase(Index::iterator file) {
  CAIRN_ASSERT(file != files_.end() && bytes_ >= file->first, "the spare bytes are those of the spare files");
  bytes_ -= file->first;
  files_.erase(file);
}

std::optional<io::FileHandle> SpareFiles::take(const io::Directory& to, const std::string& name,
                                               std::uint64_t bytes,
                                               const std::function<bool(io::FileId)>& is_in_use) {
  const std::filesystem::path path = to.path() / name;
  const MutexLock lock(mutex_);
  for (auto each = files_.lower_bound(bytes); each != files_.end();) {
    const auto found = each++;
    std::uint64_t found_bytes = 0;
    io::FileHandle file;
    try {
      file = folder_.open_file(found->second, O_RDWR);
      const io::FileStatus status = status_of(file.syscalls(), file.fd(), path);
      if (is_reusable(status) && status.size_bytes >= bytes && is_in_use(status.id)) {
        continue;  // By a save that was given up, and still ends.
      }
      if (!is_reusable(status) || status.size_bytes < bytes) {
        erase(found);
        continue;
      }
      found_bytes = status.size_bytes;
      folder_.rename(found->second, to, name, io::RenameMode::no_replace);
    } catch (const Error&) {  // Somebody else has changed what there is.
      CAIRN_PROBE("store.spare_file_changed");
      erase(found);
      continue;
    }
    erase(found);
    if (found_bytes > bytes) {
      io::Syscalls& syscalls = file.syscalls();
      io::require(io::uninterrupted([&] { return syscalls.truncate(file.fd(), bytes); }), "ftruncate", path);
    }
    return file;
  }
  return std::nullopt;
}

io::FileHandle SpareFiles::make(const std::string& name, std::uint64_t bytes) {
  io::FileHandle file = folder_.create_file(name);
  const int made = io::uninterrupted([&] { return file.syscalls().allocate(file.fd(), bytes); });
  if (made < 0) {
    folder_.remove_file(name);
    throw_errno(-made, "fallocate", folder_.path() / name);
  }
  return file;
}

bool SpareFiles::trim(std::uint64_t most_bytes) {
  const MutexLock lock(mutex_);
  bool has_trimmed = false;
  while (bytes_ > most_bytes && !files_.empty()) {
    const auto largest = std::prev(files_.end());
    io::remove_if_there([&] { folder_.remove_file(largest->second); });
    erase(largest);
    has_trimmed = true;
  }
  CAIRN_ASSERT(bytes_ <= most_bytes || files_.empty(), "spare files are trimmed to what was asked for");
  return has_trimmed;
}

void SpareFiles::clear() {
  const MutexLock lock(mutex_);
  for (const io::DirectoryEntry& entry : folder_.list()) {
    const std::optional<io::FileStatus> status = folder_.status(entry.name);
    if (status && status->kind == io::FileKind::regular) {
      io::remove_if_there([&] { folder_.remove_file(entry.name); });
    }
  }
  files_.clear();
  bytes_ = 0;
}

std::uint64_t SpareFiles::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

io::RemoveFile removing_from(const io::Directory& root) {
  std::shared_ptr<SpareFiles> spare = SpareFiles::of(root);
  if (!spare) {
    return {};
  }
  return [spare = std::move(spare)](const io::Directory& directory, const std::string& name) {
    spare->remove(directory, name);
  };
}

}  // namespace cairn::store
