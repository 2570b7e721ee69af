// SPDX-License-Identifier: Apache-2.0
#include "io/internal/replacing_file.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"

namespace cairn::io {
namespace {

constexpr std::string_view kEnd = ".tmp";
constexpr std::size_t kDigits = 16;
constexpr std::size_t kMostNameBytes =
    255 - 2 - kDigits - kEnd.size();  // Of a long name the first bytes have to do.

bool is_temporary(const DirectoryEntry& entry, std::string_view begin) {
  const std::string_view name = entry.name;
  return entry.kind == FileKind::regular && name.starts_with(begin) && name.ends_with(kEnd) &&
         name.size() == begin.size() + kDigits + kEnd.size() &&
         name.substr(begin.size(), kDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Directory directory_of(Syscalls& syscalls, const std::filesystem::path& path) {
  require_path(path);
  const std::filesystem::path parent = path.parent_path();
  return Directory::open(syscalls, parent.empty() ? "." : parent);
}

}  // namespace

ReplacingFile::ReplacingFile(Directory directory, const std::filesystem::path& path)
    : directory_(std::move(directory)),
      path_(path),
      begin_(fmt::format(".{}-", path.filename().native().substr(0, kMostNameBytes))) {}

// The other constructor has run when this one fails: the file is removed.
ReplacingFile::ReplacingFile(Syscalls& syscalls, const std::filesystem::path& path)
    : ReplacingFile(directory_of(syscalls, path), path) {
  constexpr int kMostAttempts = 100;
  require_relative(path.filename().native());
  remove_left_over();
  for (int attempt = 1; !try_create(); ++attempt) {
    if (attempt == kMostAttempts) {
      throw Error(Errc::io_failure,
                  fmt::format("{}: every temporary file was removed at once", path.string()));
    }
  }
  CAIRN_ASSERT(!temporary_.empty() && file_.is_open(),
               "a file that is to replace another has a name and a descriptor");
  contents_.emplace(directory_, temporary_, file_, path_);
}

void ReplacingFile::remove_left_over(Syscalls& syscalls, const std::filesystem::path& path) {
  ReplacingFile(directory_of(syscalls, path), path).remove_left_over();
}

ReplacingFile::~ReplacingFile() {
  contents_.reset();
  if (!temporary_.empty()) {
    uninterrupted(
        [&] { return directory_.syscalls().unlink_at(directory_.fd(), temporary_.c_str(), false); });
  }
}

/// Removes what nobody has locked. Whatever cannot be looked at stays: this is done for tidiness only.
void ReplacingFile::remove_left_over() const {
  Syscalls& syscalls = directory_.syscalls();
  std::vector<DirectoryEntry> entries;
  static_cast<void>(uninterrupted([&] { return syscalls.list(directory_.fd(), entries); }));
  for (const DirectoryEntry& entry : entries) {
    if (is_temporary(entry, begin_)) {
      const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK;
      const int fd =
          uninterrupted([&] { return syscalls.open_beneath(directory_.fd(), entry.name.c_str(), flags, 0); });
      const FileHandle file(syscalls, fd);
      // The lock is kept until the name is gone.
      if (file.is_open() && uninterrupted([&] { return syscalls.try_lock(file.fd()); }) >= 0) {
        uninterrupted([&] { return syscalls.unlink_at(directory_.fd(), entry.name.c_str(), false); });
      }
    }
  }
}

/// Returns false when another writer took the file for one that is left over.
bool ReplacingFile::try_create() {
  std::random_device random;
  const std::uint64_t number = (std::uint64_t{random()} << 32) | random();
  std::string temporary = fmt::format("{}{:016x}{}", begin_, number, kEnd);
  file_ = directory_.create_file(temporary);
  if (uninterrupted([&] { return directory_.syscalls().try_lock(file_.fd()); }) == -EAGAIN) {
    CAIRN_PROBE("io.temporary_was_taken_for_left_over");
    return false;
  }
  temporary_ = std::move(temporary);
  return directory_.status(temporary_).has_value();
}

void ReplacingFile::publish() {
  Syscalls& syscalls = directory_.syscalls();
  CAIRN_ASSERT(!temporary_.empty(), "a file is published once, from the name that it was made under");
  contents_->finish();
  require(syscalls.sync(file_.fd()), "fsync", path_);
  directory_.rename(temporary_, directory_, path_.filename().native(), RenameMode::replace);
  temporary_.clear();
  // After its sync a close loses nothing. Not before the rename: the lock ends with it.
  static_cast<void>(file_.close());
  directory_.sync();
}

}  // namespace cairn::io
