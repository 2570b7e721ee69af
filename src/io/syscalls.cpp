// SPDX-License-Identifier: Apache-2.0
#include "io/internal/syscalls.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include <dirent.h>

#include "base/internal/aligned_memory.hpp"
#include "io/open_walking.hpp"

namespace cairn::io {
namespace {

constexpr std::uint64_t kBlockBytes = 512;  // stat(2) counts in these, whatever the file system does.

constexpr std::uint32_t kPermissions = 07777;

int result_of(long value) noexcept {
  return value < 0 ? -errno : static_cast<int>(value);
}

FileKind kind_of_mode(std::uint32_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return FileKind::regular;
    case S_IFDIR:
      return FileKind::directory;
    case S_IFLNK:
      return FileKind::symlink;
    default:
      return FileKind::other;
  }
}

/// For kernels and sandboxes without statx: nothing is known of O_DIRECT.
int old_stat_at(int directory, const char* name, int flags, FileStatus& status) noexcept {
  struct stat found {};

  if (::fstatat(directory, name, &found, flags) < 0) {
    return -errno;
  }
  status.kind = kind_of_mode(found.st_mode);
  status.id = {found.st_dev, found.st_ino};
  status.size_bytes = static_cast<std::uint64_t>(found.st_size);
  status.allocated_bytes = static_cast<std::uint64_t>(found.st_blocks) * kBlockBytes;
  status.links = static_cast<std::uint32_t>(found.st_nlink);
  status.user = found.st_uid;
  status.permissions = found.st_mode & kPermissions;
  status.is_direct_alignment_known = false;
  status.direct_alignment_bytes = 0;
  return 0;
}

/// Old container sandboxes answer EPERM to calls that they do not know. Flags that contradict each other are refused
/// by the kernel before it looks at anything else.
bool is_renameat2_filtered() noexcept {
  return ::renameat2(-1, "", -1, "", RENAME_NOREPLACE | RENAME_EXCHANGE) < 0 && errno == EPERM;
}

int stat_at(int directory, const char* name, int flags, FileStatus& status) noexcept {
  constexpr unsigned kWanted = STATX_TYPE | STATX_MODE | STATX_INO | STATX_SIZE | STATX_BLOCKS | STATX_NLINK |
                               STATX_UID | STATX_DIOALIGN;

  struct statx found {};

  const int result = ::statx(directory, name, flags, kWanted, &found);
  if (result < 0 && (errno == EPERM || errno == ENOSYS)) {  // statx itself never answers EPERM.
    return old_stat_at(directory, name, flags, status);
  }
  if (result < 0) {
    return -errno;
  }
  status.kind = kind_of_mode(found.stx_mode);
  status.id = {makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino};
  status.size_bytes = found.stx_size;
  status.allocated_bytes = found.stx_blocks * kBlockBytes;
  status.links = found.stx_nlink;
  status.user = found.stx_uid;
  status.permissions = found.stx_mode & kPermissions;
  status.is_direct_alignment_known = (found.stx_mask & STATX_DIOALIGN) != 0;
  status.direct_alignment_bytes = 0;
  if (status.is_direct_alignment_known && found.stx_dio_offset_align != 0) {
    status.direct_alignment_bytes = std::max(found.stx_dio_mem_align, found.stx_dio_offset_align);
  }
  return 0;
}

FileKind kind_of_entry(int directory, const dirent64& entry) noexcept {
  switch (entry.d_type) {
    case DT_REG:
      return FileKind::regular;
    case DT_DIR:
      return FileKind::directory;
    case DT_LNK:
      return FileKind::symlink;
    case DT_UNKNOWN:
      break;
    default:
      return FileKind::other;
  }
  FileStatus status;  // Some file systems leave the type out of their directories.
  stat_at(directory, entry.d_name, AT_SYMLINK_NOFOLLOW, status);
  return status.kind;
}

/// Appends what a call has read of a directory.
void append_entries(int directory, std::span<const std::byte> read, std::vector<DirectoryEntry>& entries) {
  while (!read.empty()) {
    const auto& entry = *reinterpret_cast<const dirent64*>(read.data());
    const std::string_view name = entry.d_name;
    if (name != "." && name != "..") {
      entries.push_back({std::string(name), kind_of_entry(directory, entry), entry.d_ino});
    }
    read = read.subspan(entry.d_reclen);
  }
}

/// Reads `fd` to its end. Not with `readdir`: to make its stream costs three calls, and a save lists eight directories.
int list_open(int fd, int directory, std::vector<DirectoryEntry>& entries) noexcept {
  std::size_t room = 32 << 10;
  constexpr std::size_t kMostRoom = 2 << 20;  // 50,000 entries.
  try {
    auto buffer = std::make_unique_for_overwrite<std::byte[]>(room);  // The stack may be small.
    while (true) {
      const ssize_t bytes = ::getdents64(fd, buffer.get(), room);
      if (bytes == 0 || (bytes < 0 && errno == ENOENT)) {
        return 0;  // ENOENT: it was removed meanwhile.
      }
      if (bytes < 0) {
        return -errno;
      }
      append_entries(directory, std::span(buffer.get(), static_cast<std::size_t>(bytes)), entries);
      if (room < kMostRoom && 2 * static_cast<std::size_t>(bytes) > room) {  // There are many.
        room = kMostRoom;
        buffer = std::make_unique_for_overwrite<std::byte[]>(room);
      }
    }
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

constexpr off_t kUseByte = off_t{1} << 62;  // Behind the bytes of every file.

int lock_bytes(int fd, int command, short kind, off_t begin, off_t bytes) noexcept {
  struct flock lock {};

  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = begin;
  lock.l_len = bytes;
  const int result = result_of(::fcntl(fd, command, &lock));
  return result == -EACCES ? -EAGAIN : result;
}

class PosixSyscalls final : public Syscalls {
 public:
  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return result_of(::openat(directory, path, flags | O_CLOEXEC, mode));
  }

  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
    how.mode = (flags & O_CREAT) != 0 ? mode : 0;  // The kernel refuses a mode without O_CREAT.
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    const int result = result_of(::syscall(SYS_openat2, directory, path, &how, sizeof(how)));
    // Kernels before 5.6 lack the call; some container filters answer EPERM to calls they do not know.
    if (result == -ENOSYS || result == -EPERM) {
      return open_walking(directory, path, flags, mode);
    }
    return result;
  }

  int close(int fd) noexcept override { return result_of(::close(fd)); }

  int allocate(int fd, std::uint64_t size_bytes) noexcept override {
    return result_of(::fallocate(fd, 0, 0, static_cast<off_t>(size_bytes)));
  }

  int truncate(int fd, std::uint64_t size_bytes) noexcept override {
    return result_of(::ftruncate(fd, static_cast<off_t>(size_bytes)));
  }

  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    const ssize_t result = ::pread(fd, data, size, static_cast<off_t>(offset));
    return result < 0 ? -errno : result;
  }

  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override {
    const ssize_t result = ::pwrite(fd, data, size, static_cast<off_t>(offset));
    return result < 0 ? -errno : result;
  }

  int sync_data(int fd) noexcept override { return result_of(::fdatasync(fd)); }

  int sync(int fd) noexcept override { return result_of(::fsync(fd)); }

  int status(int fd, FileStatus& status) noexcept override { return stat_at(fd, "", AT_EMPTY_PATH, status); }

  int status_at(int directory, const char* name, FileStatus& status) noexcept override {
    return stat_at(directory, name, AT_SYMLINK_NOFOLLOW, status);
  }

  int list(int directory, std::vector<DirectoryEntry>& entries) noexcept override {
    // A descriptor of its own: the position in `directory` is shared with all that read it.
    const int fd = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
      return -errno;
    }
    const int result = list_open(fd, directory, entries);
    ::close(fd);
    return result;
  }

  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override {
    return result_of(::mkdirat(directory, name, mode));
  }

  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                RenameMode mode) noexcept override {
    unsigned flags = 0;
    switch (mode) {
      case RenameMode::replace:
        break;
      case RenameMode::no_replace:
        flags = RENAME_NOREPLACE;
        break;
      case RenameMode::exchange:
        flags = RENAME_EXCHANGE;
        break;
    }
    const int result = result_of(::renameat2(old_directory, old_name, new_directory, new_name, flags));
    if (result != -EPERM || !is_renameat2_filtered()) {
      return result;
    }
    return flags != 0 ? -ENOSYS : result_of(::renameat(old_directory, old_name, new_directory, new_name));
  }

  int link_at(int old_directory, const char* old_name, int new_directory,
              const char* new_name) noexcept override {
    return result_of(::linkat(old_directory, old_name, new_directory, new_name, 0));
  }

  int symlink_at(const char* target, int directory, const char* name) noexcept override {
    return result_of(::symlinkat(target, directory, name));
  }

  int unlink_at(int directory, const char* name, bool is_directory) noexcept override {
    return result_of(::unlinkat(directory, name, is_directory ? AT_REMOVEDIR : 0));
  }

  int try_lock(int fd) noexcept override { return lock_bytes(fd, F_OFD_SETLK, F_WRLCK, 0, kUseByte); }
  int unlock(int fd) noexcept override { return lock_bytes(fd, F_OFD_SETLK, F_UNLCK, 0, kUseByte); }
  int try_lock_use(int fd, bool is_shared) noexcept override {
    return lock_bytes(fd, F_OFD_SETLK, is_shared ? F_RDLCK : F_WRLCK, kUseByte, 1);
  }
  int try_lock_for_process(int fd) noexcept override { return lock_bytes(fd, F_SETLK, F_WRLCK, 0, kUseByte); }

  int file_system(int fd) noexcept override {
    struct statfs found {};

    if (::fstatfs(fd, &found) < 0) {
      return -errno;
    }
    // NFS, Lustre, GPFS, CIFS, SMB2, Ceph, FUSE, BeeGFS, AFS: the values of statfs(2) and of the vendors' headers.
    constexpr std::uint32_t kShared[] = {0x6969,     0x0BD00BD0, 0x47504653, 0xFF534D42, 0xFE534D42,
                                         0x00C36400, 0x65735546, 0x19830326, 0x5346414F};
    const auto kind = static_cast<std::uint32_t>(found.f_type);
    const bool is_shared = std::find(std::begin(kShared), std::end(kShared), kind) != std::end(kShared);
    return static_cast<int>(is_shared             ? FileSystem::network
                            : kind == TMPFS_MAGIC ? FileSystem::memory
                                                  : FileSystem::local);
  }

  int map(int fd, std::size_t size_bytes, std::byte*& memory) noexcept override {
    std::byte* const mapped = map_aligned(size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    if (mapped == nullptr) {
      return -errno;
    }
    // A child that wrote there would change what the parent saves; a core dump would hold the state once more.
    if (::madvise(mapped, size_bytes, MADV_DONTFORK) < 0) {
      const int refusal = -errno;
      ::munmap(mapped, size_bytes);
      return refusal;
    }
    static_cast<void>(::madvise(mapped, size_bytes, MADV_DONTDUMP));
    memory = mapped;
    return 0;
  }
};

}  // namespace

int open_walking(int directory, const char* path, int flags, std::uint32_t mode) noexcept {
  int current = directory;
  std::string_view rest = path;
  char component[NAME_MAX + 1];
  while (true) {
    const std::size_t end = rest.find('/');
    const std::string_view name = rest.substr(0, end);
    if (name.size() > NAME_MAX) {
      return current == directory ? -ENAMETOOLONG : (::close(current), -ENAMETOOLONG);
    }
    const bool is_last = end == std::string_view::npos;
    std::memcpy(component, name.data(), name.size());
    component[name.size()] = '\0';
    const int step = is_last ? flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW;
    int next = name.empty() || name == ".." ? -EXDEV
                                            : result_of(::openat(current, component, step | O_CLOEXEC, mode));
    if (next == -ENOTDIR && !is_last) {
      next = -ELOOP;  // A link and a plain file look the same here; both are refused.
    }
    if (current != directory) {
      ::close(current);
    }
    if (is_last || next < 0) {
      return next;
    }
    current = next;
    rest.remove_prefix(end + 1);
  }
}

Syscalls& posix_syscalls() noexcept {
  // Never destroyed: threads of a context that is still busy at the end of the program go on using it.
  static PosixSyscalls& syscalls = *new PosixSyscalls;
  return syscalls;
}

}  // namespace cairn::io
