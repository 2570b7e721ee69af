// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/internal/mutex.hpp"
#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::training {

/// The root of a run: the directory that its path led to when it was first seen there, held open. A path that leads
/// elsewhere later, as a link in it was turned, must not take what is saved and removed to the steps of another run.
///
/// Threads: every method may be called from any thread.
class Root {
 public:
  /// Null: the operating system's calls.
  Root(std::filesystem::path path, std::shared_ptr<io::Syscalls> injected)
      : path_(std::move(path)), injected_(std::move(injected)) {}

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] io::Syscalls& syscalls() const noexcept {
    return injected_ ? *injected_ : io::posix_syscalls();
  }

  /// Opens what the path leads to. Nothing where that is yet to be made, or is gone.
  ///
  /// Both directories are asked now who they are: a number that was remembered may be another one by now on overlayfs
  /// and FUSE.
  /// Errors: Errc::invalid_argument: another directory than before; both are named. As store::open_root.
  [[nodiscard]] std::optional<io::Directory> open() const;

  /// For what is about to save: as `open`, but a directory that is elsewhere by now, while nothing has its path, is
  /// another one, too. One that was removed may be made again.
  void require_same() const;

 private:
  [[nodiscard]] std::shared_ptr<const io::Directory> held() const;
  [[noreturn]] void throw_turned(const io::Directory& before) const;

  const std::filesystem::path path_;
  const std::shared_ptr<io::Syscalls> injected_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<const io::Directory> held_ CAIRN_GUARDED_BY(mutex_);  // Null: never seen.
};

}  // namespace cairn::training
