// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "cairn/base/error.hpp"

namespace cairn::testing {

/// Waits until all of the file system that `directory` lies in is on its disk. Never of the whole machine, as
/// sync(2): that waits for every disk there is, and for ever where one of them hangs that is nobody's here.
inline void sync_file_system(const std::filesystem::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    throw_errno(errno, "open", directory);
  }
  const int result = ::syncfs(fd);
  const int error = errno;
  ::close(fd);
  if (result != 0) {
    throw_errno(error, "syncfs", directory);
  }
}

}  // namespace cairn::testing
