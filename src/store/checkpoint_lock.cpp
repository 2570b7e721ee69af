// SPDX-License-Identifier: Apache-2.0
#include "store/internal/checkpoint_lock.hpp"

#include <fcntl.h>
#include <system_error>

#include <cerrno>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::store {

namespace {

/// Returns whether `name` led to another file than this one when both were asked: what one remembers of a
/// file may be another number by now on overlayfs and FUSE.
bool is_of_another(const io::Directory& parent, const std::string& name, const io::FileHandle& file) {
  io::FileStatus own;
  const int result = io::uninterrupted([&] { return parent.syscalls().status(file.fd(), own); });
  io::require(result, "stat", parent.path() / name);
  const std::optional<io::FileStatus> named = parent.status(name);
  return named && named->id != own.id;
}

}  // namespace

CheckpointLock::CheckpointLock(const io::Directory& parent, std::string_view entry) {
  const std::string name = fmt::format("{}/{}", entry, kCommitName);
  try {
    commit_ = parent.open_file(name, O_RDWR);
  } catch (const Error& error) {
    CAIRN_PROBE("store.no_commit_to_lock");
    const bool is_open_to_all =
        error.code() == std::errc::permission_denied || error.code() == std::errc::read_only_file_system;
    if (error.code() != Errc::not_found && !is_open_to_all) {
      throw;
    }
    return;
  }
  is_held_ = io::uninterrupted([&] { return parent.syscalls().try_lock(commit_.fd()); }) != -EAGAIN &&
             !is_of_another(parent, name, commit_);
  CAIRN_ASSERT(!is_held_ || commit_.is_open(), "a lock that is held keeps its file open");
}

bool CheckpointLock::is_in_use() noexcept {
  return commit_.is_open() &&
         io::uninterrupted([&] { return commit_.syscalls().try_lock_use(commit_.fd(), false); }) == -EAGAIN;
}

bool LockWait::wait() {
  constexpr std::chrono::milliseconds kPause{1};
  constexpr std::chrono::seconds kMost{10};
  begin_ = begin_ ? begin_ : clock_->steady_now();
  if (clock_->steady_now() - *begin_ >= kMost) {
    return false;
  }
  std::this_thread::sleep_for(kPause);
  return true;
}

CheckpointHold::CheckpointHold(const io::Directory& checkpoint) {
  try {
    commit_ = checkpoint.open_file(kCommitName);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found && error.code() != std::errc::permission_denied) {
      throw;
    }
    CAIRN_PROBE("store.no_commit_to_hold");
    return;
  }
  is_held_ =
      io::uninterrupted([&] { return checkpoint.syscalls().try_lock_use(commit_.fd(), true); }) != -EAGAIN;
}

}  // namespace cairn::store
