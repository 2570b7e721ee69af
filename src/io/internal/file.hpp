// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/internal/syscalls.hpp"

namespace cairn::io {

/// What a new directory allows, less what the process's umask takes away.
inline constexpr std::uint32_t kDirectoryMode = 0777;

/// An open file or directory; closed with it.
///
/// Threads: a value; moving from it leaves it empty.
class FileHandle {
 public:
  FileHandle() = default;

  FileHandle(Syscalls& syscalls, int fd) noexcept : syscalls_(&syscalls), fd_(fd) {}

  ~FileHandle();
  FileHandle(FileHandle&& other) noexcept;
  FileHandle& operator=(FileHandle&& other) noexcept;

  [[nodiscard]] int fd() const noexcept { return fd_; }

  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }

  [[nodiscard]] Syscalls& syscalls() const noexcept { return *syscalls_; }

  /// Closes and returns 0 or -errno: some file systems report a lost write only here.
  [[nodiscard]] int close() noexcept;

 private:
  Syscalls* syscalls_ = nullptr;
  int fd_ = -1;
};

/// A directory held open: names are looked up beneath it, wherever it may be renamed to meanwhile.
///
/// Symbolic links are never followed below it. Every call blocks. `path()` is for messages only.
/// A `name` is one component; a `relative` path may have several. Both are refused with
/// Errc::invalid_argument when empty, absolute, or holding "." or ".." or a NUL.
/// Errors:  OS errors pass through and name the operation and the path.
/// Threads: a value; const methods may run concurrently.
class Directory {
 public:
  /// Opens a directory by path, following links as any program would.
  static Directory open(Syscalls& syscalls, const std::filesystem::path& path);
  /// As above, only to look names up in it: it can be neither listed nor synced, and need not be readable.
  static Directory enter(Syscalls& syscalls, const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  [[nodiscard]] int fd() const noexcept { return handle_.fd(); }

  [[nodiscard]] Syscalls& syscalls() const noexcept { return handle_.syscalls(); }

  [[nodiscard]] Directory open_directory(std::string_view relative) const;
  [[nodiscard]] Directory make_directory(std::string_view name, std::uint32_t mode = kDirectoryMode) const;

  /// Makes a new file and opens it for reading and writing; never opens one that exists.
  /// `flags` are added to O_CREAT|O_EXCL|O_NOFOLLOW (O_DIRECT, say).
  [[nodiscard]] FileHandle create_file(std::string_view relative, int flags = 0,
                                       std::uint32_t mode = 0666) const;

  /// Opens a regular file for reading. A FIFO or a device in its place is refused and does not
  /// block.
  ///
  /// Errors: Errc::not_found; Errc::malformed_metadata when it is not a regular file or lies behind a
  /// link.
  [[nodiscard]] FileHandle open_file(std::string_view relative, int flags = 0) const;
  /// Opens for reading what lies behind a symbolic link of this very directory, wherever that is: only for
  /// directories of other programs, where nothing is ever written or removed.
  ///
  /// Errors: Errc::invalid_argument; Errc::not_found when no regular file is behind it; OS errors pass through.
  [[nodiscard]] FileHandle open_linked_file(std::string_view name, int flags = 0) const;

  /// The kind of what `relative` names, a symbolic link being one itself; nothing when it does not
  /// exist.
  [[nodiscard]] std::optional<FileStatus> status(std::string_view relative) const;
  /// Returns what the directory holds, sorted by name.
  [[nodiscard]] std::vector<DirectoryEntry> list() const;

  void rename(std::string_view name, const Directory& to, std::string_view new_name, RenameMode mode) const;
  void remove_file(std::string_view name) const;
  void remove_empty_directory(std::string_view name) const;

  /// Returns whether the path that it was opened by leads to another directory by now, or to none.
  [[nodiscard]] bool is_replaced() const;

  /// Makes the names in this directory durable (not the contents of the files).
  void sync() const;

 private:
  Directory(FileHandle handle, std::filesystem::path path);

  FileHandle handle_;
  std::filesystem::path path_;
};

/// `path` with a last component that is a name: without slashes at the end, and resolved by the kernel where it ends
/// in "." or "..". Nothing else is changed: what ".." behind a symbolic link means only the kernel knows.
[[nodiscard]] std::filesystem::path named_path(const std::filesystem::path& path);

/// Refuses a path that is empty, or that the kernel would take for another one: what follows a NUL it does not see.
///
/// Errors: Errc::invalid_argument.
void require_path(const std::filesystem::path& path);

/// Refuses what is not a plain relative path of components below a directory.
///
/// Errors: Errc::invalid_argument.
void require_relative(std::string_view relative);
[[nodiscard]] bool is_plain_relative(std::string_view relative) noexcept;

/// Fills `data` from `offset` on, blocking; `path` is for errors only.
///
/// Errors: Errc::io_failure when the file ends before; OS errors pass through.
void read_all(const FileHandle& file, std::span<std::byte> data, std::uint64_t offset,
              const std::filesystem::path& path);
/// Writes all of `data` at `offset`, blocking; otherwise as `read_all`.
void write_all(const FileHandle& file, std::span<const std::byte> data, std::uint64_t offset,
               const std::filesystem::path& path);

/// Reads a whole small file.
///
/// Errors: as `Directory::open_file`; Errc::malformed_metadata when it is larger than `max_bytes`.
std::string read_small_file(const Directory& directory, std::string_view relative, std::size_t max_bytes);

/// Creates a small file, writes `text`, syncs and closes it.
void write_small_file(const Directory& directory, std::string_view relative, std::string_view text,
                      std::uint32_t mode = 0666);

}  // namespace cairn::io
