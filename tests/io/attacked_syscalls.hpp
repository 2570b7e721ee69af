// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <functional>
#include <utility>

#include "cairn/io/syscalls.hpp"

namespace cairn::io {

/// The operating system with somebody who does something between two calls: from number `first` on, before
/// each call that looks up a name, until it has worked. (To any other call it makes no difference.)
class AttackedSyscalls final : public Syscalls {
 public:
  /// Returns whether it has worked.
  using Attack = std::function<bool()>;

  void plan(int first, Attack attack) {
    first_ = first;
    attack_ = std::move(attack);
    seen_ = 0;
    is_reached_ = false;
  }
  /// Whether there were as many calls as the attacker waits for.
  [[nodiscard]] bool is_reached() const { return is_reached_; }

  bool lacks_rename_modes = false;

  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return step().open_at(directory, path, flags, mode);
  }
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return step().open_beneath(directory, path, flags, mode);
  }
  int close(int fd) noexcept override { return real_.close(fd); }
  int allocate(int fd, std::uint64_t size_bytes) noexcept override { return real_.allocate(fd, size_bytes); }
  int truncate(int fd, std::uint64_t size_bytes) noexcept override { return real_.truncate(fd, size_bytes); }
  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    return real_.read_at(fd, data, size, offset);
  }
  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override {
    return real_.write_at(fd, data, size, offset);
  }
  int sync_data(int) noexcept override { return 0; }  // The power stays on; this is half of the time.
  int sync(int) noexcept override { return 0; }
  int status(int fd, FileStatus& status) noexcept override { return real_.status(fd, status); }
  int status_at(int directory, const char* name, FileStatus& status) noexcept override {
    return step().status_at(directory, name, status);
  }
  int list(int directory, std::vector<DirectoryEntry>& entries) noexcept override {
    return step().list(directory, entries);
  }
  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override {
    return step().make_directory_at(directory, name, mode);
  }
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                RenameMode mode) noexcept override {
    if (mode != RenameMode::replace && lacks_rename_modes) {
      return -EINVAL;  // As NFS answers.
    }
    return step().rename_at(old_directory, old_name, new_directory, new_name, mode);
  }
  int link_at(int old_directory, const char* old_name, int new_directory,
              const char* new_name) noexcept override {
    return step().link_at(old_directory, old_name, new_directory, new_name);
  }
  int unlink_at(int directory, const char* name, bool is_directory) noexcept override {
    return step().unlink_at(directory, name, is_directory);
  }
  int try_lock(int fd) noexcept override { return real_.try_lock(fd); }
  int is_network_file_system(int fd) noexcept override { return real_.is_network_file_system(fd); }

 private:
  Syscalls& step() noexcept {
    if (attack_ && ++seen_ >= first_) {
      is_reached_ = true;
      if (attack_()) {
        attack_ = nullptr;
      }
    }
    return real_;
  }

  Syscalls& real_ = posix_syscalls();
  Attack attack_;
  int first_ = 1;
  int seen_ = 0;
  bool is_reached_ = false;
};

}  // namespace cairn::io
