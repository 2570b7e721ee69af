// SPDX-License-Identifier: Apache-2.0
#include "store/internal/checkpoint_hold.hpp"

#include <fcntl.h>
#include <system_error>

#include <cerrno>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "store/internal/manifest.hpp"

namespace cairn::store {

CheckpointHold::CheckpointHold(const io::Directory& parent, std::string_view entry) {
  try {
    commit_ = parent.open_file(fmt::format("{}/{}", entry, kCommitName), O_RDWR);
  } catch (const Error& error) {
    const bool is_open_to_all =
        error.code() == std::errc::permission_denied || error.code() == std::errc::read_only_file_system;
    if (error.code() != Errc::not_found && !is_open_to_all) {
      throw;
    }
    return;
  }
  is_held_ = parent.syscalls().try_lock(commit_.fd()) != -EAGAIN;
}

}  // namespace cairn::store
