// SPDX-License-Identifier: Apache-2.0
#include "io/internal/replacing_file.hpp"

#include <fcntl.h>

#include <cerrno>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/internal/check.hpp"

namespace cairn::io {
namespace {

constexpr std::size_t kDigits = 16;
constexpr std::size_t kMostNameBytes = 255 - kDigits - 6;  // ".", "-" and ".tmp" are added.
constexpr std::string_view kTemporaryEnd = ".tmp";

/// Of a long name the first bytes have to do.
std::string temporary_begin(std::string_view name) {
  return fmt::format(".{}-", name.substr(0, kMostNameBytes));
}

bool is_temporary(std::string_view entry, std::string_view begin) {
  if (entry.size() != begin.size() + kDigits + kTemporaryEnd.size() || !entry.starts_with(begin) ||
      !entry.ends_with(kTemporaryEnd)) {
    return false;
  }
  const std::string_view digits = entry.substr(begin.size(), kDigits);
  return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Removes what nobody has locked. Whatever cannot be looked at stays: this is done for tidiness only.
void remove_left_over(const Directory& directory, std::string_view begin) {
  Syscalls& syscalls = directory.syscalls();
  std::vector<DirectoryEntry> entries;
  if (syscalls.list(directory.fd(), entries) < 0) {
    return;
  }
  for (const DirectoryEntry& entry : entries) {
    if (entry.kind != FileKind::regular || !is_temporary(entry.name, begin)) {
      continue;
    }
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK;
    const int fd = syscalls.open_beneath(directory.fd(), entry.name.c_str(), flags, 0);
    if (fd < 0) {
      continue;
    }
    const FileHandle file(syscalls, fd);  // Keeps the lock until the name is gone.
    if (syscalls.try_lock(fd) >= 0) {
      syscalls.unlink_at(directory.fd(), entry.name.c_str(), false);
    }
  }
}

}  // namespace

ReplacingFile::ReplacingFile(Directory directory, std::string name)
    : directory_(std::move(directory)), name_(std::move(name)) {}

ReplacingFile::ReplacingFile(ReplacingFile&& other) noexcept
    : directory_(std::move(other.directory_)),
      name_(std::move(other.name_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      file_(std::move(other.file_)) {}

ReplacingFile::~ReplacingFile() {
  if (!temporary_.empty()) {
    directory_.syscalls().unlink_at(directory_.fd(), temporary_.c_str(), false);
  }
}

ReplacingFile ReplacingFile::create(Syscalls& syscalls, const std::filesystem::path& path,
                                    std::uint32_t mode) {
  constexpr int kMostAttempts = 100;
  require_path(path);
  const std::string name = path.filename();
  if (!is_plain_relative(name)) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' does not end in the name of a file", path.string()));
  }
  const std::filesystem::path parent = path.parent_path();
  ReplacingFile made(Directory::open(syscalls, parent.empty() ? "." : parent), name);
  remove_left_over(made.directory_, temporary_begin(name));
  for (int attempt = 1; !made.try_create(mode); ++attempt) {
    if (attempt == kMostAttempts) {
      throw Error(Errc::io_failure,
                  fmt::format("{}: every temporary file was removed at once", path.string()));
    }
  }
  return made;
}

/// Returns false when another writer has removed the file before it was locked.
bool ReplacingFile::try_create(std::uint32_t mode) {
  Syscalls& syscalls = directory_.syscalls();
  std::random_device random;
  const std::uint64_t number = (std::uint64_t{random()} << 32) | random();
  std::string temporary = fmt::format("{}{:016x}{}", temporary_begin(name_), number, kTemporaryEnd);
  file_ = directory_.create_file(temporary, 0, mode);
  const int locked = uninterrupted([&] { return syscalls.try_lock(file_.fd()); });
  if (locked == -EAGAIN || locked == -EACCES) {
    return false;  // Who has the lock removes the file.
  }
  temporary_ = std::move(temporary);
  FileStatus ours;
  require(uninterrupted([&] { return syscalls.status(file_.fd(), ours); }), "stat", path());
  const std::optional<FileStatus> there = directory_.status(temporary_);
  if (!there || there->id != ours.id) {
    temporary_.clear();
    return false;
  }
  return true;  // Where files cannot be locked, nobody removes them.
}

void ReplacingFile::publish() {
  Syscalls& syscalls = directory_.syscalls();
  require(uninterrupted([&] { return syscalls.sync(file_.fd()); }), "fsync", path());
  directory_.rename(temporary_, directory_, name_, RenameMode::replace);
  temporary_.clear();
  // After its sync a close loses nothing. Not before the rename: the lock ends with it.
  static_cast<void>(file_.close());
  directory_.sync();
}

}  // namespace cairn::io
