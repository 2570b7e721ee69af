// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::io {

enum class FileKind : std::uint8_t { regular, directory, symlink, other };

/// Tells two files apart, while at least one of them is held open: the kernel gives numbers again.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  friend bool operator==(const FileId&, const FileId&) = default;
};

struct FileStatus {
  FileKind kind = FileKind::other;
  FileId id;
  std::uint64_t size_bytes = 0;
  std::uint64_t allocated_bytes = 0;  ///< Of its own, on the file system: less where it has holes.
  std::uint32_t links = 1;            ///< How many names it has.
  std::uint32_t user = 0;             ///< Whose it is.
  std::uint32_t permissions = 0;      ///< As chmod(2) has them.
  /// What O_DIRECT asks of offsets, sizes and addresses; 0 when the file cannot, or does not say.
  std::uint32_t direct_alignment_bytes = 0;
  /// Says whether `direct_alignment_bytes` comes from the kernel (6.1 and later), so that 0 means "cannot".
  bool is_direct_alignment_known = false;
};

struct DirectoryEntry {
  std::string name;
  FileKind kind = FileKind::other;
  /// Of what has the name now: another one once that was replaced. 0: nobody knows. Once it is gone another file may
  /// get the number.
  std::uint64_t inode = 0;
};

/// Says what kind of file system a file lies on.
enum class FileSystem : std::uint8_t {
  local,    ///< Of this machine, as far as is known.
  network,  ///< Known to be shared between machines.
  memory,   ///< A tmpfs: its files are in the memory of this machine, and go with it.
};

/// Says what to do when the new name of a rename is taken.
enum class RenameMode : std::uint8_t { replace, no_replace, exchange };

/// Every operation that Cairn asks of a file system: the seam where tests inject faults.
///
/// Each returns a value >= 0, or -errno; none throws, none retries. Descriptors are opened with
/// O_CLOEXEC. A name is relative to the directory descriptor before it; `AT_FDCWD` stands for the
/// working directory.
/// Threads: every method may be called from any thread.
class Syscalls {
 public:
  Syscalls() = default;
  virtual ~Syscalls() = default;
  Syscalls(const Syscalls&) = delete;
  Syscalls& operator=(const Syscalls&) = delete;

  /// Opens `path` as open(2) does: symbolic links on the way are followed unless `flags` say
  /// otherwise.
  virtual int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept = 0;

  /// Opens `path`, refusing to leave `directory` and to pass any symbolic link (-ELOOP, -EXDEV).
  virtual int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept = 0;
  virtual int close(int fd) noexcept = 0;

  /// Reserves the blocks of `[0, size_bytes)`, so that a full disk shows before anything is
  /// written.
  virtual int allocate(int fd, std::uint64_t size_bytes) noexcept = 0;
  virtual int truncate(int fd, std::uint64_t size_bytes) noexcept = 0;
  virtual std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept = 0;
  virtual std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                                std::uint64_t offset) noexcept = 0;
  virtual int sync_data(int fd) noexcept = 0;
  virtual int sync(int fd) noexcept = 0;

  virtual int status(int fd, FileStatus& status) noexcept = 0;
  /// As `status`, for a name; a symbolic link is described, not followed.
  virtual int status_at(int directory, const char* name, FileStatus& status) noexcept = 0;
  /// Appends what the directory holds, without "." and "..", in no order.
  virtual int list(int directory, std::vector<DirectoryEntry>& entries) noexcept = 0;

  virtual int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept = 0;
  virtual int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                        RenameMode mode) noexcept = 0;
  virtual int link_at(int old_directory, const char* old_name, int new_directory,
                      const char* new_name) noexcept = 0;
  /// Makes `name` a symbolic link that says `target`.
  virtual int symlink_at(const char* target, int directory, const char* name) noexcept = 0;
  virtual int unlink_at(int directory, const char* name, bool is_directory) noexcept = 0;

  /// Takes a write lock on the whole file that belongs to the open file, not to the process;
  /// -EAGAIN when somebody else holds it. Closing the file gives it back.
  virtual int try_lock(int fd) noexcept = 0;
  /// Gives back what `try_lock` has taken, also where a forked child still has the file open.
  virtual int unlock(int /*fd*/) noexcept { return -ENOLCK; }
  /// Takes another lock of the file, that of those who use it: shared by them, or alone. Otherwise as `try_lock`.
  virtual int try_lock_use(int /*fd*/, bool /*is_shared*/) noexcept { return -ENOLCK; }
  /// Takes a write lock on the whole file that belongs to the process; -EAGAIN when another has it. Any close
  /// of the file in this process gives it back, and its end; no child inherits it, and it is seen across containers.
  virtual int try_lock_for_process(int /*fd*/) noexcept { return -ENOLCK; }
  /// Returns the FileSystem that an open file lies on, as a number.
  virtual int file_system(int fd) noexcept = 0;
  /// Maps `[0, size_bytes)` of a file, to be read and written; left out of core dumps and of forked children. munmap(2)
  /// ends it.
  virtual int map(int /*fd*/, std::size_t /*size_bytes*/, std::byte*& /*memory*/) noexcept { return -ENOSYS; }
};

/// The operating system's own.
Syscalls& posix_syscalls() noexcept;

}  // namespace cairn::io
