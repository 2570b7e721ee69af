// SPDX-License-Identifier: Apache-2.0
// Stands between the library and the C library: the linker leads the calls of all that is linked statically here
// (--wrap).
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include <dirent.h>

#include "faults/injector.hpp"

using cairn::faults::injector;
using cairn::faults::Op;
using cairn::faults::Order;

namespace {

constexpr std::size_t kBlockBytes = 4096;

template <class Call>
auto perform(Op op, Call call) -> decltype(call()) {
  const Order order = injector().next(op);
  if (order.error != 0) {
    errno = order.error;
    return -1;
  }
  return call();
}

/// A transfer that ends early does so at a block's end when it is longer than a block: O_DIRECT allows no other.
std::size_t part_of(std::size_t size) {
  const std::size_t half = std::max<std::size_t>(size / 2, 1);
  return half < kBlockBytes ? half : half / kBlockBytes * kBlockBytes;
}

template <class Call>
ssize_t transfer(Op op, std::size_t size, Call call) {
  const Order order = injector().next(op);
  if (order.error != 0) {
    errno = order.error;
    return -1;
  }
  return call(order.is_cut ? part_of(size) : size);
}

template <class Call>
int sync(Op op, int fd, Call call) {
  injector().look_at_sync(fd);
  const Order order = injector().next(op);
  if (order.error != 0) {
    injector().failed_sync(fd);
    errno = order.error;
    return -1;
  }
  return call();
}

}  // namespace

extern "C" {

int __real_openat(int, const char*, int, ...);
long __real_syscall(long, ...);
int __real_close(int);
int __real_fallocate(int, int, off_t, off_t);
int __real_ftruncate(int, off_t);
ssize_t __real_pread(int, void*, size_t, off_t);
ssize_t __real_pwrite(int, const void*, size_t, off_t);
int __real_fdatasync(int);
int __real_fsync(int);
int __real_statx(int, const char*, int, unsigned, struct statx*);
ssize_t __real_getdents64(int, void*, size_t);
int __real_mkdirat(int, const char*, mode_t);
int __real_renameat2(int, const char*, int, const char*, unsigned);
int __real_linkat(int, const char*, int, const char*, int);
int __real_unlinkat(int, const char*, int);
int __real_fcntl(int, int, ...);
void* __real_mmap(void*, size_t, int, int, int, off_t);
int __real_eventfd(unsigned, int);

int __wrap_openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return perform(Op::open, [&] { return __real_openat(directory, path, flags, mode); });
}

// The library makes one call that has no function of its own: openat2.
long __wrap_syscall(long number, int directory, const char* path, open_how* how, size_t size) {
  return perform(Op::open, [&] { return __real_syscall(number, directory, path, how, size); });
}

int __wrap_close(int fd) {
  const int result = __real_close(fd);  // A close that fails has closed all the same.
  return perform(Op::close, [&] { return result; });
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t size) {
  return perform(Op::allocate, [&] { return __real_fallocate(fd, mode, offset, size); });
}

int __wrap_ftruncate(int fd, off_t size) {
  return perform(Op::truncate, [&] { return __real_ftruncate(fd, size); });
}

ssize_t __wrap_pread(int fd, void* data, size_t size, off_t offset) {
  return transfer(Op::read, size, [&](std::size_t part) { return __real_pread(fd, data, part, offset); });
}

ssize_t __wrap_pwrite(int fd, const void* data, size_t size, off_t offset) {
  return transfer(Op::write, size, [&](std::size_t part) { return __real_pwrite(fd, data, part, offset); });
}

int __wrap_fdatasync(int fd) {
  return sync(Op::sync_data, fd, [&] { return __real_fdatasync(fd); });
}

int __wrap_fsync(int fd) {
  return sync(Op::sync, fd, [&] { return __real_fsync(fd); });
}

int __wrap_statx(int directory, const char* path, int flags, unsigned mask, struct statx* found) {
  return perform(Op::status, [&] { return __real_statx(directory, path, flags, mask, found); });
}

ssize_t __wrap_getdents64(int fd, void* buffer, size_t size) {
  return perform(Op::list, [&] { return __real_getdents64(fd, buffer, size); });
}

int __wrap_mkdirat(int directory, const char* path, mode_t mode) {
  return perform(Op::make_directory, [&] { return __real_mkdirat(directory, path, mode); });
}

int __wrap_renameat2(int from, const char* name, int to, const char* new_name, unsigned flags) {
  if (flags != 0 && injector().lacks_rename_modes) {
    errno = EINVAL;
    return -1;
  }
  return perform(Op::rename, [&] { return __real_renameat2(from, name, to, new_name, flags); });
}

int __wrap_linkat(int from, const char* name, int to, const char* new_name, int flags) {
  return perform(Op::link, [&] { return __real_linkat(from, name, to, new_name, flags); });
}

int __wrap_unlinkat(int directory, const char* path, int flags) {
  return perform(Op::unlink, [&] { return __real_unlinkat(directory, path, flags); });
}

// The library asks for locks only.
int __wrap_fcntl(int fd, int command, struct flock* lock) {
  return perform(Op::lock, [&] { return __real_fcntl(fd, command, lock); });
}

void* __wrap_mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  const Order order = injector().next(Op::map);
  if (order.error != 0) {
    errno = order.error;
    return MAP_FAILED;
  }
  return __real_mmap(address, size, protection, flags, fd, offset);
}

int __wrap_eventfd(unsigned count, int flags) {
  return perform(Op::make_eventfd, [&] { return __real_eventfd(count, flags); });
}

}  // extern "C"
