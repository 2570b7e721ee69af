// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn::testing {

/// A process asks these of the system, as far as tests make them slow or let them fail: the calls of `io::Syscalls`
/// first, then those of liburing, requests in a ring, threads, memory.
enum class CallKind : std::uint8_t {
  open,
  close,
  allocate,
  truncate,
  read,
  write,
  sync_data,
  sync,
  status,
  list,
  make_directory,
  rename,
  link,
  unlink,
  lock,
  map,
  make_eventfd,
  make_ring,
  probe_ring,
  enter_ring,
  ring_read,
  ring_write,
  ring_sync,
  start_thread,
  new_memory,
};

inline constexpr std::size_t kCallKinds = 25;
/// How many of them are calls of `io::Syscalls`.
inline constexpr std::size_t kSystemCalls = 15;

/// "pwrite", "io_uring fdatasync": for messages.
[[nodiscard]] constexpr std::string_view name(CallKind kind) noexcept {
  constexpr std::array<std::string_view, kCallKinds> kNames = {"open",
                                                               "close",
                                                               "fallocate",
                                                               "ftruncate",
                                                               "pread",
                                                               "pwrite",
                                                               "fdatasync",
                                                               "fsync",
                                                               "statx",
                                                               "readdir",
                                                               "mkdir",
                                                               "rename",
                                                               "link",
                                                               "unlink",
                                                               "lock",
                                                               "mmap",
                                                               "eventfd",
                                                               "io_uring_setup",
                                                               "io_uring_register",
                                                               "io_uring_enter",
                                                               "io_uring read",
                                                               "io_uring write",
                                                               "io_uring fdatasync",
                                                               "thread",
                                                               "operator new"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace cairn::testing
