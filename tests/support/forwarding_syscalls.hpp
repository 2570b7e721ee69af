// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cairn/io/syscalls.hpp"

namespace cairn::testing {

/// The operating system as it is: what a test's own version changes a few calls of.
class ForwardingSyscalls : public io::Syscalls {
 public:
  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return real_.open_at(directory, path, flags, mode);
  }
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return real_.open_beneath(directory, path, flags, mode);
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
  int sync_data(int fd) noexcept override { return real_.sync_data(fd); }
  int sync(int fd) noexcept override { return real_.sync(fd); }
  int status(int fd, io::FileStatus& status) noexcept override { return real_.status(fd, status); }
  int status_at(int directory, const char* name, io::FileStatus& status) noexcept override {
    return real_.status_at(directory, name, status);
  }
  int list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept override {
    return real_.list(directory, entries);
  }
  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override {
    return real_.make_directory_at(directory, name, mode);
  }
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    return real_.rename_at(old_directory, old_name, new_directory, new_name, mode);
  }
  int link_at(int old_directory, const char* old_name, int new_directory,
              const char* new_name) noexcept override {
    return real_.link_at(old_directory, old_name, new_directory, new_name);
  }
  int unlink_at(int directory, const char* name, bool is_directory) noexcept override {
    return real_.unlink_at(directory, name, is_directory);
  }
  int try_lock(int fd) noexcept override { return real_.try_lock(fd); }
  int is_network_file_system(int fd) noexcept override { return real_.is_network_file_system(fd); }

 private:
  io::Syscalls& real_ = io::posix_syscalls();
};

}  // namespace cairn::testing
