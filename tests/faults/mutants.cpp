// SPDX-License-Identifier: Apache-2.0
#include "faults/mutants.hpp"

#include <utility>

namespace cairn::faults {
namespace {

class Mutant final : public io::Syscalls {
 public:
  explicit Mutant(Twist twist) : twist_(std::move(twist)) {}

  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return told(Op::open, -1, real_.open_at(directory, path, flags, mode));
  }
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return told(Op::open, -1, real_.open_beneath(directory, path, flags, mode));
  }
  int close(int fd) noexcept override { return told(Op::close, fd, real_.close(fd)); }
  int allocate(int fd, std::uint64_t size) noexcept override {
    return told(Op::allocate, fd, real_.allocate(fd, size));
  }
  int truncate(int fd, std::uint64_t size) noexcept override {
    return told(Op::truncate, fd, real_.truncate(fd, size));
  }
  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    return twist_(Op::read, fd, real_.read_at(fd, data, size, offset));
  }
  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override {
    const std::int64_t result = real_.write_at(fd, data, size, offset);
    const std::int64_t answer = twist_(Op::write, fd, result);
    return answer == kAll ? static_cast<std::int64_t>(size) : answer;
  }
  int sync_data(int fd) noexcept override { return told(Op::sync_data, fd, real_.sync_data(fd)); }
  int sync(int fd) noexcept override { return told(Op::sync, fd, real_.sync(fd)); }
  int status(int fd, io::FileStatus& status) noexcept override {
    return told(Op::status, fd, real_.status(fd, status));
  }
  int status_at(int directory, const char* name, io::FileStatus& status) noexcept override {
    return told(Op::status, -1, real_.status_at(directory, name, status));
  }
  int list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept override {
    return told(Op::list, directory, real_.list(directory, entries));
  }
  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override {
    return told(Op::make_directory, -1, real_.make_directory_at(directory, name, mode));
  }
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    return told(Op::rename, -1, real_.rename_at(old_directory, old_name, new_directory, new_name, mode));
  }
  int link_at(int old_directory, const char* old_name, int new_directory,
              const char* new_name) noexcept override {
    return told(Op::link, -1, real_.link_at(old_directory, old_name, new_directory, new_name));
  }
  int unlink_at(int directory, const char* name, bool is_directory) noexcept override {
    return told(Op::unlink, -1, real_.unlink_at(directory, name, is_directory));
  }
  int try_lock(int fd) noexcept override { return told(Op::lock, fd, real_.try_lock(fd)); }
  int is_network_file_system(int fd) noexcept override { return real_.is_network_file_system(fd); }

 private:
  int told(Op op, int fd, int result) noexcept { return static_cast<int>(twist_(op, fd, result)); }

  io::Syscalls& real_ = io::posix_syscalls();
  Twist twist_;
};

}  // namespace

std::shared_ptr<io::Syscalls> make_mutant(Twist twist) {
  return std::make_shared<Mutant>(std::move(twist));
}

}  // namespace cairn::faults
