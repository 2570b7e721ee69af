// SPDX-License-Identifier: Apache-2.0
#include "io/internal/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/mapped_file.hpp"

namespace cairn::io {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int require_no_error(int result, const char* operation, const std::string& name) {
  if (result < 0) {
    throw_errno(errno, operation, name);
  }
  return result;
}

}  // namespace

SharedMemory::SharedMemory(Syscalls& syscalls, std::string name, std::size_t bytes) {
  const int fd =
      require_no_error(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING), "memfd_create", name);
  file_ = FileHandle(syscalls, fd);
  require(uninterrupted([&] { return syscalls.allocate(fd, bytes); }), "fallocate", name);
  require_no_error(::fcntl(fd, F_ADD_SEALS, kSizeSeals), "fcntl", name);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) {
    throw_errno(errno, "mmap", name);
  }
  bytes_ = {static_cast<std::byte*>(memory), bytes};
  key_ = {static_cast<std::uint32_t>(::getpid()), static_cast<std::uint32_t>(fd), bytes, std::move(name)};
}

SharedMemory::~SharedMemory() {
  ::munmap(bytes_.data(), bytes_.size());
}

std::shared_ptr<const std::span<const std::byte>> map_shared(Syscalls& syscalls, const SharedMemoryKey& key) {
  const std::string path = fmt::format("/proc/{}/fd/{}", key.process, key.fd);
  // Looked at before it is opened: what another program has open may not like that.
  const std::string wanted = fmt::format("/memfd:{} (deleted)", key.name);
  std::string found(wanted.size() + 1, '\0');
  const ssize_t length = ::readlink(path.c_str(), found.data(), found.size());
  if (length < 0) {
    throw_errno(errno, "readlink", path);
  }
  found.resize(static_cast<std::size_t>(length));
  if (found != wanted) {
    CAIRN_PROBE("io.shared_memory_is_another");
    throw Error(Errc::io_failure, fmt::format("{} is not '{}'", path, key.name));
  }
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  const int fd = uninterrupted([&] { return syscalls.open_at(AT_FDCWD, path.c_str(), kFlags, 0); });
  const FileHandle file(syscalls, require(fd, "open", path));
  const int seals = ::fcntl(file.fd(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    throw Error(Errc::io_failure, fmt::format("{} may be made shorter", path));
  }
  return map_live_file(file, key.bytes, path);
}

}  // namespace cairn::io
