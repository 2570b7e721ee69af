// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn::async {

/// The calling thread is inside `what` while this lives, the innermost first: who would wait for the end of something
/// asks whether it is he himself who runs it.
class ThreadScope {
 public:
  explicit ThreadScope(const void* what) noexcept : what_(what), outer_(innermost) { innermost = this; }
  ~ThreadScope() { innermost = outer_; }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

  /// Returns whether the calling thread is inside it.
  [[nodiscard]] static bool is_in(const void* what) noexcept {
    for (const ThreadScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
      if (scope->what_ == what) {
        return true;
      }
    }
    return false;
  }

 private:
  static inline thread_local const ThreadScope* innermost = nullptr;

  const void* what_;
  const ThreadScope* outer_;
};

}  // namespace cairn::async
