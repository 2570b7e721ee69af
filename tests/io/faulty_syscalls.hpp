// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/io/syscalls.hpp"

namespace cairn::io {

enum class Call {
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
  lock
};

inline constexpr Call kAllCalls[] = {
    Call::open,           Call::close,     Call::allocate, Call::truncate, Call::read,
    Call::write,          Call::sync_data, Call::sync,     Call::status,   Call::list,
    Call::make_directory, Call::rename,    Call::link,     Call::unlink,   Call::lock};

/// A fault: calls of `call` from number `first` on (from 1), `count` of them, answer `result`.
struct Fault {
  Call call = Call::open;
  int first = 1;
  int count = 1;
  int result = 0;
  bool is_performed = false;  ///< The operation is done all the same: its answer was lost.
};

inline constexpr int kForEver = std::numeric_limits<int>::max();

/// The operating system with planned faults. A failing close closes, as the kernel's does.
class FaultySyscalls final : public Syscalls {
 public:
  explicit FaultySyscalls(Syscalls& real = posix_syscalls()) : real_(real) {}

  void plan(Fault fault) {
    fault_ = fault;
    seen_ = 0;
    hits_ = 0;
  }
  void clear() { fault_.reset(); }
  /// How many calls the fault has hit.
  [[nodiscard]] int hits() const { return hits_; }

  /// How many calls there were in all.
  [[nodiscard]] int calls() const { return calls_; }

  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return run(Call::open, [&] { return real_.open_at(directory, path, flags, mode); });
  }
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return run(Call::open, [&] { return real_.open_beneath(directory, path, flags, mode); });
  }
  int close(int fd) noexcept override {
    const int result = real_.close(fd);
    return run(Call::close, [&] { return result; });
  }
  int allocate(int fd, std::uint64_t size) noexcept override {
    return run(Call::allocate, [&] { return real_.allocate(fd, size); });
  }
  int truncate(int fd, std::uint64_t size) noexcept override {
    return run(Call::truncate, [&] { return real_.truncate(fd, size); });
  }
  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    return run(Call::read, [&] { return real_.read_at(fd, data, size, offset); });
  }
  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override {
    return run(Call::write, [&] { return real_.write_at(fd, data, size, offset); });
  }
  int sync_data(int fd) noexcept override {
    return run(Call::sync_data, [&] { return real_.sync_data(fd); });
  }
  int sync(int fd) noexcept override {
    return run(Call::sync, [&] { return real_.sync(fd); });
  }
  int status(int fd, FileStatus& status) noexcept override {
    return run(Call::status, [&] { return real_.status(fd, status); });
  }
  int status_at(int directory, const char* name, FileStatus& status) noexcept override {
    return run(Call::status, [&] { return real_.status_at(directory, name, status); });
  }
  int list(int directory, std::vector<DirectoryEntry>& entries) noexcept override {
    return run(Call::list, [&] { return real_.list(directory, entries); });
  }
  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override {
    const int made =
        run(Call::make_directory, [&] { return real_.make_directory_at(directory, name, mode); });
    if (const auto hook = std::exchange(after_make_directory, nullptr)) {
      hook();
    }
    return made;
  }
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                RenameMode mode) noexcept override {
    if (mode != RenameMode::replace && lacks_rename_modes) {
      return -EINVAL;  // As NFS answers.
    }
    const bool is_lower = old_name == lower_name || (mode == RenameMode::exchange && new_name == lower_name);
    if (is_lower) {
      return -EXDEV;  // As overlayfs answers.
    }
    const int renamed = run(Call::rename, [&] {
      return real_.rename_at(old_directory, old_name, new_directory, new_name, mode);
    });
    if (const auto hook = std::exchange(after_rename, nullptr)) {
      hook();
    }
    return renamed;
  }
  int link_at(int old_directory, const char* old_name, int new_directory,
              const char* new_name) noexcept override {
    const int linked =
        run(Call::link, [&] { return real_.link_at(old_directory, old_name, new_directory, new_name); });
    if (const auto hook = std::exchange(after_link, nullptr)) {
      hook();
    }
    return linked;
  }
  int unlink_at(int directory, const char* name, bool is_directory) noexcept override {
    return run(Call::unlink, [&] { return real_.unlink_at(directory, name, is_directory); });
  }
  int try_lock(int fd) noexcept override {
    if (before_lock) {
      std::exchange(before_lock, nullptr)();
    }
    return run(Call::lock, [&] { return real_.try_lock(fd); });
  }
  int is_network_file_system(int fd) noexcept override {
    return is_network.value_or(real_.is_network_file_system(fd));
  }

  bool lacks_rename_modes = false;
  std::string lower_name;  ///< A directory that cannot be renamed; empty: none.
  std::optional<int> is_network;
  std::function<void()> before_lock;           ///< What somebody does just before the next lock.
  std::function<void()> after_rename;          ///< What happens just after the next rename.
  std::function<void()> after_link;            ///< Likewise after the next link.
  std::function<void()> after_make_directory;  ///< What somebody does just after the next directory was made.

 private:
  template <class Real>
  auto run(Call call, Real real) noexcept -> decltype(real()) {
    ++calls_;
    if (!fault_ || fault_->call != call) {
      return real();
    }
    const int number = ++seen_;
    const bool is_hit = number >= fault_->first && number - fault_->first < fault_->count;
    if (!is_hit) {
      return real();
    }
    ++hits_;
    if (fault_->is_performed) {
      real();
    }
    return fault_->result;
  }

  Syscalls& real_;
  std::optional<Fault> fault_;
  std::atomic<int> seen_{0};
  std::atomic<int> hits_{0};
  std::atomic<int> calls_{0};
};

}  // namespace cairn::io
