// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "support/forwarding_syscalls.hpp"
#include "support/sampling.hpp"

namespace cairn::io {

using Call = testing::CallKind;

inline constexpr Call kAllCalls[] = {
    Call::open,           Call::close,     Call::allocate, Call::truncate, Call::read,
    Call::write,          Call::sync_data, Call::sync,     Call::status,   Call::list,
    Call::make_directory, Call::rename,    Call::link,     Call::unlink,   Call::lock};
static_assert(std::size(kAllCalls) == testing::kSystemCalls);

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
class FaultySyscalls final : public testing::ForwardingSyscalls {
 public:
  using ForwardingSyscalls::ForwardingSyscalls;

  void plan(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
    seen_ = 0;
    hits_ = 0;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    fault_.reset();
  }
  /// How many calls the fault has hit.
  [[nodiscard]] int hits() const { return hits_; }

  /// How many calls there were in all.
  [[nodiscard]] int calls() const { return calls_; }

  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override {
    const int made = ForwardingSyscalls::make_directory_at(directory, name, mode);
    call_once(after_make_directory);
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
    const int renamed = ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
    call_once(after_rename);
    return renamed;
  }
  int link_at(int old_directory, const char* old_name, int new_directory,
              const char* new_name) noexcept override {
    if (link_error != 0) {
      return -link_error;
    }
    const int linked = ForwardingSyscalls::link_at(old_directory, old_name, new_directory, new_name);
    call_once(after_link);
    return linked;
  }
  int try_lock(int fd) noexcept override {
    call_once(before_lock);
    return ForwardingSyscalls::try_lock(fd);
  }
  int file_system(int fd) noexcept override {
    return lies_on ? static_cast<int>(*lies_on) : ForwardingSyscalls::file_system(fd);
  }
  int map(int fd, std::size_t size_bytes, std::byte*& memory) noexcept override {
    return map_error != 0 ? -map_error : ForwardingSyscalls::map(fd, size_bytes, memory);
  }

  bool lacks_rename_modes = false;
  int link_error = 0;                          ///< What each link fails with; 0: none does.
  std::string lower_name;                      ///< A directory that cannot be renamed; empty: none.
  std::optional<FileSystem> lies_on;           ///< Instead of the one that a file does lie on.
  int map_error = 0;                           ///< What mapping a file fails with; 0: it is mapped.
  std::function<void()> before_lock;           ///< What somebody does just before the next lock.
  std::function<void()> after_rename;          ///< What happens just after the next rename.
  std::function<void()> after_link;            ///< Likewise after the next link.
  std::function<void()> after_make_directory;  ///< What somebody does just after the next directory was made.

 private:
  static void call_once(std::function<void()>& hook) {
    if (const auto called = std::exchange(hook, nullptr)) {
      called();
    }
  }

  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    ++calls_;
    const std::optional<Fault> fault = planned();
    if (!fault || fault->call != call.kind) {
      return call.make();
    }
    const int number = ++seen_;
    const bool is_hit = number >= fault->first && number - fault->first < fault->count;
    if (!is_hit) {
      return call.make();
    }
    ++hits_;
    if (fault->is_performed || call.kind == Call::close) {
      call.make();
    }
    return fault->result;
  }

  [[nodiscard]] std::optional<Fault> planned() const noexcept {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

  mutable std::mutex mutex_;  // What was saved before may close its files in the background yet.
  std::optional<Fault> fault_;
  std::atomic<int> seen_{0};
  std::atomic<int> hits_{0};
  std::atomic<int> calls_{0};
};

/// Lets the first call of each kind fail, then the second and so on, `times` in a row, until `try_fault` says that
/// there were not as many or a test has failed. Returns how many faults there were. It tries a sample of them.
template <class Try>
int try_each_fault(int times, Try try_fault) {
  const testing::Sample sample = testing::sample_of_calls();
  int faults = 0;
  for (const Call call : kAllCalls) {
    for (int first = 1; first < 200; ++first) {
      if (!sample.takes(static_cast<std::uint64_t>(first))) {
        ++faults;
        continue;
      }
      SCOPED_TRACE(::testing::Message() << "call " << static_cast<int>(call) << " number " << first);
      if (!try_fault(Fault{call, first, times, -EIO})) {
        break;
      }
      ++faults;
      if (::testing::Test::HasFailure()) {
        return faults;
      }
    }
  }
  return faults;
}

}  // namespace cairn::io
