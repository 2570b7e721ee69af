// SPDX-License-Identifier: Apache-2.0
#include "io/internal/file.hpp"

#include <fcntl.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/read_small_file.hpp"
#include "io/internal/remove_directory.hpp"

namespace cairn::io {
namespace {

constexpr int kMostDepth = 128;  // Of a tree that is removed; a deeper one is not ours.

bool is_plain_component(std::string_view name) noexcept {
  return !name.empty() && name != "." && name != ".." && name.find('\0') == std::string_view::npos &&
         name.find('/') == std::string_view::npos;
}

void require_component(std::string_view name) {
  if (!is_plain_component(name)) {
    throw Error(Errc::invalid_argument, fmt::format("'{}' is not the name of a file", name));
  }
}

/// What is called `path` below `top`, which itself is called "".
template <class Use>
void with_directory(const Directory& top, const std::string& path, Use use) {
  if (path.empty()) {
    use(top);
  } else {
    use(top.open_directory(path));
  }
}

/// Removes all below `path`, a directory below `top`. Of the directories between the two none is held open: near the
/// limit of descriptors two are enough, whatever the depth.
void remove_below(const Directory& top, const std::string& path, std::span<const std::string_view> last,
                  const RemoveFile& remove, int depth) {
  if (depth > kMostDepth) {
    CAIRN_PROBE("io.tree_too_deep_to_remove");
    throw Error(std::error_code(ELOOP, std::system_category()),
                fmt::format("remove {}", (top.path() / path).string()));
  }
  std::vector<std::string> directories;
  std::vector<std::string> last_files(last.size());
  with_directory(top, path, [&](const Directory& directory) {
    for (const DirectoryEntry& entry : directory.list()) {
      const auto place = std::find(last.begin(), last.end(), entry.name);
      if (entry.kind == FileKind::directory) {
        directories.push_back(entry.name);
      } else if (place != last.end()) {
        last_files[static_cast<std::size_t>(place - last.begin())] = entry.name;
      } else {
        remove_if_there([&] { remove ? remove(directory, entry.name) : directory.remove_file(entry.name); });
      }
    }
  });
  for (const std::string& name : directories) {
    remove_if_there([&] {
      remove_below(top, path.empty() ? name : path + "/" + name, {}, remove, depth + 1);
      with_directory(top, path, [&](const Directory& directory) { directory.remove_empty_directory(name); });
    });
  }
  for (const std::string& name : last_files) {
    if (!name.empty()) {
      remove_if_there([&] { top.remove_file(name); });
    }
  }
}

/// Throws the failure of opening a file for reading, in the words of somebody who expected a file there.
[[noreturn]] void throw_open_failure(int error, const std::filesystem::path& path) {
  switch (error) {
    case ENOENT:
      throw Error(Errc::not_found, path.string());
    case ELOOP:
    case EXDEV:
      throw Error(Errc::malformed_metadata, fmt::format("{} lies behind a symbolic link", path.string()));
    case ENOTDIR:
    case ENXIO:
    case EISDIR:
      throw Error(Errc::malformed_metadata, fmt::format("{} is not a regular file", path.string()));
    default:
      throw_errno(error, "open", path);
  }
}

FileHandle open_by_path(Syscalls& syscalls, const std::filesystem::path& path, int flags) {
  require_path(path);
  const int fd = require(uninterrupted([&] { return syscalls.open_at(AT_FDCWD, path.c_str(), flags, 0); }),
                         "open", path);
  return {syscalls, fd};
}

}  // namespace

void require_path(const std::filesystem::path& path) {
  if (path.empty()) {
    throw Error(Errc::invalid_argument, "the path is empty");
  }
  if (path.native().find('\0') != std::string::npos) {
    throw Error(Errc::invalid_argument, fmt::format("the path '{}' holds a NUL", path.string()));
  }
}

FileHandle::~FileHandle() {
  [[maybe_unused]] const int ignored = close();  // Who needs the result has called close() before.
}

FileHandle::FileHandle(FileHandle&& other) noexcept
    : syscalls_(other.syscalls_), fd_(std::exchange(other.fd_, -1)) {}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(syscalls_, other.syscalls_);
  std::swap(fd_, other.fd_);
  return *this;
}

int FileHandle::close() noexcept {
  if (fd_ < 0) {
    return 0;
  }
  const int result = syscalls_->close(std::exchange(fd_, -1));
  CAIRN_ASSERT(fd_ < 0, "a descriptor is closed once");
  return result == -EINTR ? 0 : result;  // Linux has closed it; closing again could hit another file.
}

std::filesystem::path named_path(const std::filesystem::path& path) {
  std::filesystem::path named = path;
  while (!named.has_filename() && named.has_relative_path()) {
    named = named.parent_path();
  }
  if (named.filename() != "." && named.filename() != "..") {
    return named;
  }
  std::error_code failure;
  std::filesystem::path resolved = std::filesystem::canonical(named, failure);
  return failure ? named : resolved;  // The open that follows says better what is wrong.
}

bool is_plain_relative(std::string_view relative) noexcept {
  while (true) {
    const std::size_t end = relative.find('/');
    if (!is_plain_component(relative.substr(0, end))) {
      return false;
    }
    if (end == std::string_view::npos) {
      return true;
    }
    relative.remove_prefix(end + 1);
  }
}

void require_relative(std::string_view relative) {
  if (!is_plain_relative(relative)) {
    throw Error(Errc::invalid_argument, fmt::format("'{}' is not a plain relative path", relative));
  }
}

Directory::Directory(FileHandle handle, std::filesystem::path path)
    : handle_(std::move(handle)), path_(std::move(path)) {}

Directory Directory::open(Syscalls& syscalls, const std::filesystem::path& path) {
  return {open_by_path(syscalls, path, O_RDONLY | O_DIRECTORY), path};
}

Directory Directory::enter(Syscalls& syscalls, const std::filesystem::path& path) {
  return {open_by_path(syscalls, path, O_PATH | O_DIRECTORY), path};
}

Directory Directory::open_directory(std::string_view relative) const {
  require_relative(relative);
  const std::string name(relative);
  std::filesystem::path path = path_ / relative;  // Before there is a descriptor to lose.
  const int fd = require(uninterrupted([&] {
                           return syscalls().open_beneath(this->fd(), name.c_str(),
                                                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
                         }),
                         "open", path);
  return {FileHandle(syscalls(), fd), std::move(path)};
}

Directory Directory::make_directory(std::string_view name, std::uint32_t mode) const {
  require_component(name);
  const std::string text(name);
  // One that is there after an interrupted call is looked at below.
  const int result =
      done_at_last(-EEXIST, [&] { return syscalls().make_directory_at(fd(), text.c_str(), mode); });
  require(result, "mkdir", path_ / name);
  try {
    Directory made = open_directory(name);
    if (made.list().empty()) {
      return made;
    }
  } catch (...) {
    CAIRN_PROBE("io.made_directory_not_opened");
    // Nobody else would know of it; what has something in it stays.
    uninterrupted([&] { return syscalls().unlink_at(fd(), text.c_str(), true); });
    throw;
  }
  // Or what is in it would go with a save that fails.
  CAIRN_PROBE("io.made_directory_was_taken");
  throw Error(Errc::io_failure,
              fmt::format("mkdir {}: another directory has taken its name", (path_ / name).string()));
}

FileHandle Directory::create_file(std::string_view relative, int flags, std::uint32_t mode) const {
  require_relative(relative);
  const std::string name(relative);
  const std::filesystem::path path = path_ / relative;  // Likewise.
  const int all = flags | O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
  const int fd =
      require(uninterrupted([&] { return syscalls().open_beneath(this->fd(), name.c_str(), all, mode); }),
              "create", path);
  return {syscalls(), fd};
}

FileHandle Directory::open_file(std::string_view relative, int flags) const {
  require_relative(relative);
  const std::string name(relative);
  // O_NONBLOCK: a FIFO put in the file's place must not make the open wait for a writer.
  const int all = flags | O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
  const int fd = uninterrupted([&] { return syscalls().open_beneath(this->fd(), name.c_str(), all, 0); });
  if (fd < 0) {
    throw_open_failure(-fd, path_ / relative);
  }
  FileHandle file(syscalls(), fd);
  FileStatus status;
  require(uninterrupted([&] { return syscalls().status(fd, status); }), "stat", path_ / relative);
  if (status.kind != FileKind::regular) {
    throw_open_failure(ENXIO, path_ / relative);
  }
  return file;
}

FileHandle Directory::open_linked_file(std::string_view name, int flags) const {
  require_component(name);
  const std::string link(name);
  const auto refuse = [&] {
    throw Error(Errc::not_found, fmt::format("{} is a symbolic link, and no regular file is behind it",
                                             (path_ / name).string()));
  };
  const int all = flags | O_RDONLY | O_NONBLOCK | O_NOCTTY;
  const int fd = uninterrupted([&] { return syscalls().open_at(this->fd(), link.c_str(), all, 0); });
  if (fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR || fd == -ENXIO || fd == -EISDIR) {
    refuse();
  }
  FileHandle file(syscalls(), require(fd, "open", path_ / name));
  FileStatus status;
  require(uninterrupted([&] { return syscalls().status(fd, status); }), "stat", path_ / name);
  if (status.kind != FileKind::regular) {
    refuse();
  }
  return file;
}

std::optional<FileStatus> Directory::status(std::string_view relative) const {
  require_relative(relative);
  FileStatus status;
  const std::size_t slash = relative.rfind('/');
  if (slash != std::string_view::npos) {  // fstatat would follow links on the way.
    const std::string_view parent = relative.substr(0, slash);
    const std::optional<FileStatus> parent_status = this->status(parent);
    if (!parent_status || parent_status->kind != FileKind::directory) {
      return std::nullopt;
    }
    return open_directory(parent).status(relative.substr(slash + 1));
  }
  const std::string name(relative);
  const int result = uninterrupted([&] { return syscalls().status_at(fd(), name.c_str(), status); });
  if (result == -ENOENT) {
    return std::nullopt;
  }
  require(result, "stat", path_ / relative);
  return status;
}

std::vector<DirectoryEntry> Directory::list() const {
  std::vector<DirectoryEntry> entries;
  const int result = uninterrupted([&] {
    entries.clear();
    return syscalls().list(fd(), entries);
  });
  require(result, "list", path_);
  std::sort(entries.begin(), entries.end(),
            [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
  return entries;
}

void Directory::rename(std::string_view name, const Directory& to, std::string_view new_name,
                       RenameMode mode) const {
  require_component(name);
  require_component(new_name);
  const std::string from(name);
  const std::string into(new_name);
  const auto call = [&] { return syscalls().rename_at(fd(), from.c_str(), to.fd(), into.c_str(), mode); };
  // Done twice, an exchange is undone.
  const int result = mode == RenameMode::exchange ? call() : done_at_last(-ENOENT, call);
  require(result, fmt::format("rename {} to", (path_ / name).string()), to.path() / new_name);
}

void Directory::remove_file(std::string_view name) const {
  require_component(name);
  const std::string text(name);
  require(done_at_last(-ENOENT, [&] { return syscalls().unlink_at(fd(), text.c_str(), false); }), "unlink",
          path_ / name);
}

void Directory::remove_empty_directory(std::string_view name) const {
  require_component(name);
  const std::string text(name);
  require(done_at_last(-ENOENT, [&] { return syscalls().unlink_at(fd(), text.c_str(), true); }), "rmdir",
          path_ / name);
}

void remove_directory(const Directory& parent, std::string_view name, const Directory& directory,
                      std::span<const std::string_view> last, const RemoveFile& remove) {
  remove_if_there([&] {
    remove_below(directory, "", last, remove, 0);
    parent.remove_empty_directory(name);
  });
}

bool Directory::is_replaced() const {
  const auto id_of = [](const Directory& directory) {
    FileStatus status;
    require(uninterrupted([&] { return directory.syscalls().status(directory.fd(), status); }), "stat",
            directory.path());
    return status.id;
  };
  try {
    return id_of(Directory::open(syscalls(), path_)) != id_of(*this);
  } catch (const Error& error) {
    if (error.code() == std::errc::no_such_file_or_directory || error.code() == std::errc::not_a_directory) {
      CAIRN_PROBE("io.directory_is_gone");
      return true;
    }
    throw;
  }
}

void Directory::sync() const {
  require(syscalls().sync(fd()), "fsync", path_);
}

void read_all(const FileHandle& file, std::span<std::byte> data, std::uint64_t offset,
              const std::filesystem::path& path) {
  while (!data.empty()) {
    const std::int64_t moved =
        moved_at_last([&] { return file.syscalls().read_at(file.fd(), data.data(), data.size(), offset); });
    if (moved < 0) {
      throw_errno(static_cast<int>(-moved), "read", path, offset);
    }
    if (moved == 0) {
      CAIRN_PROBE("io.read_past_the_end");
      throw Error(Errc::io_failure, fmt::format("read {} at {}: the file ends here", path.string(), offset));
    }
    CAIRN_ASSERT(static_cast<std::size_t>(moved) <= data.size(),
                 "the system reads no more than it is asked for");
    data = data.subspan(static_cast<std::size_t>(moved));
    offset += static_cast<std::uint64_t>(moved);
  }
}

void write_all(const FileHandle& file, std::span<const std::byte> data, std::uint64_t offset,
               const std::filesystem::path& path) {
  while (!data.empty()) {
    const std::int64_t moved =
        moved_at_last([&] { return file.syscalls().write_at(file.fd(), data.data(), data.size(), offset); });
    if (moved < 0) {
      throw_errno(static_cast<int>(-moved), "write", path, offset);
    }
    if (moved == 0) {
      throw Error(Errc::io_failure,
                  fmt::format("write {} at {}: nothing was written", path.string(), offset));
    }
    CAIRN_ASSERT(static_cast<std::size_t>(moved) <= data.size(),
                 "the system writes no more than it is given");
    data = data.subspan(static_cast<std::size_t>(moved));
    offset += static_cast<std::uint64_t>(moved);
  }
}

std::string read_small_file(const FileHandle& file, const std::filesystem::path& path,
                            std::size_t max_bytes) {
  FileStatus status;
  require(uninterrupted([&] { return file.syscalls().status(file.fd(), status); }), "stat", path);
  if (status.size_bytes > max_bytes) {
    throw Error(Errc::malformed_metadata, fmt::format("{} has {} bytes; at most {} are allowed",
                                                      path.string(), status.size_bytes, max_bytes));
  }
  std::string text(static_cast<std::size_t>(status.size_bytes), '\0');
  read_all(file, std::as_writable_bytes(std::span(text)), 0, path);
  return text;
}

std::string read_small_file(const Directory& directory, std::string_view relative, std::size_t max_bytes) {
  return read_small_file(directory.open_file(relative), directory.path() / relative, max_bytes);
}

void write_small_file(const Directory& directory, std::string_view relative, std::string_view text,
                      std::uint32_t mode) {
  FileHandle file = directory.create_file(relative, 0, mode);
  const std::filesystem::path path = directory.path() / relative;
  write_all(file, std::as_bytes(std::span(text)), 0, path);
  require(file.syscalls().sync_data(file.fd()), "fdatasync", path);
  require(file.close(), "close", path);
}

}  // namespace cairn::io
