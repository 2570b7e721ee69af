// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

namespace cairn {

/// A static object that each process has for itself: one that was forked makes another, at the first use, and never
/// touches the one of its parent, whose locks may be held for ever there. No object is ever destroyed, but one of two
/// that were made at the same time.
///
/// Threads: safe, without a lock.
template <class T>
class PerProcess {
 public:
  template <class Make>
  T& get(const Make& make) {
    const pid_t process = ::getpid();
    Entry* found = current_.load(std::memory_order_acquire);
    while (found == nullptr || found->process != process) {
      std::unique_ptr<Entry> made(new Entry{process, make()});
      if (current_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) {
        found = made.release();
      }
    }
    return *found->value;
  }

  T& get() {
    return get([] { return std::make_unique<T>(); });
  }

  /// The one of this process; null when there is none yet.
  [[nodiscard]] T* find() const noexcept {
    Entry* found = current_.load(std::memory_order_acquire);
    return found != nullptr && found->process == ::getpid() ? found->value.get() : nullptr;
  }

 private:
  struct Entry {
    pid_t process;
    std::unique_ptr<T> value;
  };

  std::atomic<Entry*> current_{nullptr};
};

}  // namespace cairn
