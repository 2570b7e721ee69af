// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/internal/syscalls.hpp"
#include "support/call_kind.hpp"

namespace cairn::testing {

/// A call on its way to the system.
class PassingCall {
 public:
  template <class Call>
  static PassingCall of(CallKind kind, int fd, Call& call) noexcept {
    PassingCall passing;
    passing.kind = kind;
    passing.fd = fd;
    passing.make_ = [](void* made) -> std::int64_t { return (*static_cast<Call*>(made))(); };
    passing.call_ = &call;
    return passing;
  }

  /// Makes it. Returns what the system answers.
  std::int64_t make() const noexcept { return make_(call_); }

  CallKind kind = CallKind::open;
  int fd = -1;                   ///< What it is about; of names, the directory, of two the second.
  const char* name = nullptr;    ///< Of calls that take one; of two the first.
  const void* memory = nullptr;  ///< Of transfers.
  std::size_t bytes = 0;

 private:
  PassingCall() = default;

  std::int64_t (*make_)(void*) = nullptr;
  void* call_ = nullptr;  // Lives as long as the call goes on.
};

/// The operating system as it is. What a test's own version changes of all calls it changes in `pass`; what it
/// changes of one, there.
///
/// Threads: every method may be called from any thread.
class ForwardingSyscalls : public io::Syscalls {
 public:
  explicit ForwardingSyscalls(io::Syscalls& real = io::posix_syscalls()) : real_(real) {}

  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return led(CallKind::open, directory, path, [&] { return real_.open_at(directory, path, flags, mode); });
  }
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return led(CallKind::open, directory, path,
               [&] { return real_.open_beneath(directory, path, flags, mode); });
  }
  int close(int fd) noexcept override {
    return led(CallKind::close, fd, nullptr, [&] { return real_.close(fd); });
  }
  int allocate(int fd, std::uint64_t size_bytes) noexcept override {
    return led(CallKind::allocate, fd, nullptr, [&] { return real_.allocate(fd, size_bytes); });
  }
  int truncate(int fd, std::uint64_t size_bytes) noexcept override {
    return led(CallKind::truncate, fd, nullptr, [&] { return real_.truncate(fd, size_bytes); });
  }
  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    return moved(CallKind::read, fd, data, size, [&] { return real_.read_at(fd, data, size, offset); });
  }
  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override {
    return moved(CallKind::write, fd, data, size, [&] { return real_.write_at(fd, data, size, offset); });
  }
  int sync_data(int fd) noexcept override {
    return led(CallKind::sync_data, fd, nullptr, [&] { return real_.sync_data(fd); });
  }
  int sync(int fd) noexcept override {
    return led(CallKind::sync, fd, nullptr, [&] { return real_.sync(fd); });
  }
  int status(int fd, io::FileStatus& status) noexcept override {
    return led(CallKind::status, fd, nullptr, [&] { return real_.status(fd, status); });
  }
  int status_at(int directory, const char* name, io::FileStatus& status) noexcept override {
    return led(CallKind::status, directory, name, [&] { return real_.status_at(directory, name, status); });
  }
  int list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept override {
    return led(CallKind::list, directory, nullptr, [&] { return real_.list(directory, entries); });
  }
  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override {
    return led(CallKind::make_directory, directory, name,
               [&] { return real_.make_directory_at(directory, name, mode); });
  }
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    return led(CallKind::rename, new_directory, old_name,
               [&] { return real_.rename_at(old_directory, old_name, new_directory, new_name, mode); });
  }
  int link_at(int old_directory, const char* old_name, int new_directory,
              const char* new_name) noexcept override {
    return led(CallKind::link, new_directory, old_name,
               [&] { return real_.link_at(old_directory, old_name, new_directory, new_name); });
  }
  int symlink_at(const char* target, int directory, const char* name) noexcept override {
    return led(CallKind::link, directory, name, [&] { return real_.symlink_at(target, directory, name); });
  }
  int unlink_at(int directory, const char* name, bool is_directory) noexcept override {
    return led(CallKind::unlink, directory, name,
               [&] { return real_.unlink_at(directory, name, is_directory); });
  }
  int try_lock(int fd) noexcept override {
    return led(CallKind::lock, fd, nullptr, [&] { return real_.try_lock(fd); });
  }
  int unlock(int fd) noexcept override {
    return led(CallKind::lock, fd, nullptr, [&] { return real_.unlock(fd); });
  }
  int try_lock_use(int fd, bool is_shared) noexcept override {
    return led(CallKind::lock, fd, nullptr, [&] { return real_.try_lock_use(fd, is_shared); });
  }
  int try_lock_for_process(int fd) noexcept override {
    return led(CallKind::lock, fd, nullptr, [&] { return real_.try_lock_for_process(fd); });
  }
  int file_system(int fd) noexcept override { return real_.file_system(fd); }
  int map(int fd, std::size_t size_bytes, std::byte*& memory) noexcept override {
    return real_.map(fd, size_bytes, memory);
  }

 protected:
  /// Every call but `file_system` and `map` comes through here: makes it, or not, or later. Returns what the program
  /// is told.
  virtual std::int64_t pass(const PassingCall& call) noexcept { return call.make(); }

 private:
  template <class Call>
  int led(CallKind kind, int fd, const char* name, Call call) noexcept {
    PassingCall passing = PassingCall::of(kind, fd, call);
    passing.name = name;
    return static_cast<int>(pass(passing));
  }

  template <class Call>
  std::int64_t moved(CallKind kind, int fd, const void* memory, std::size_t bytes, Call call) noexcept {
    PassingCall passing = PassingCall::of(kind, fd, call);
    passing.memory = memory;
    passing.bytes = bytes;
    return pass(passing);
  }

  io::Syscalls& real_;
};

}  // namespace cairn::testing
