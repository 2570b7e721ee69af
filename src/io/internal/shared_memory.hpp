// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/internal/file.hpp"

namespace cairn::io {

/// Where other processes of a machine find memory that one of them shares.
struct SharedMemoryKey {
  std::uint32_t process = 0;
  std::uint32_t fd = 0;  ///< Of that process.
  std::uint64_t bytes = 0;
  std::string name;  ///< Of this memory alone.
};

/// Memory that this process writes, and other processes of the same user on the same machine read.
///
/// The kernel keeps it as a file without a directory (memfd_create), and a process that knows the key opens that
/// through /proc. So it takes nothing of /dev/shm, and nothing of it is left once the last process that has mapped it
/// has ended, even if that was killed. All of it is reserved at the start, and nobody can make it shorter: a reader
/// is never sent SIGBUS.
class SharedMemory {
 public:
  /// `name` is random: by it a reader tells this memory from whatever else it may find under the key.
  ///
  /// Errors: OS errors: ENOMEM or ENOSPC without room for it, EMFILE, ENOSYS, …
  SharedMemory(Syscalls& syscalls, std::string name, std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] const SharedMemoryKey& key() const noexcept { return key_; }

 private:
  SharedMemoryKey key_;
  FileHandle file_;  // Open for as long as others may ask for it.
  std::span<std::byte> bytes_;
};

/// Maps memory that another process shares, to be read; it stays when that process ends.
///
/// Errors: Errc::io_failure when something else is there, or less of it; OS errors where it is out of reach, as that of
///         a process of another container is.
[[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map_shared(Syscalls& syscalls,
                                                                           const SharedMemoryKey& key);

}  // namespace cairn::io
