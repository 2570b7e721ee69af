// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn::async {

/// The calling thread is inside `what` while this lives, the innermost first: who would wait for the end of something asks whether it
/// is he himself who runs it.
class Inside {
 public:
  explicit Inside(const void* what) noexcept : what_(what), outer_(innermost) { innermost = this; }
  ~Inside() { innermost = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  /// Whether the calling thread is inside it.
  [[nodiscard]] static bool is_in(const void* what) noexcept {
    for (const Inside* inside = innermost; inside != nullptr; inside = inside->outer_) {
      if (inside->what_ == what) {
        return true;
      }
    }
    return false;
  }

 private:
  static inline thread_local const Inside* innermost = nullptr;

  const void* what_;
  const Inside* outer_;
};

}  // namespace cairn::async
