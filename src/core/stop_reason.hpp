// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/base/error.hpp"

#include "base/internal/mutex.hpp"

namespace cairn::core {

/// Records whether an operation was asked to stop, and why: the first reason counts.
///
/// Threads: every method may be called from any thread.
class StopReason {
 public:
  /// `what` is the operation, for messages: "save of <path>".
  explicit StopReason(std::string what) : what_(std::move(what)) {}

  /// Returns false when it was asked before.
  bool set(Errc reason, std::string_view why);

  [[nodiscard]] bool is_set() const;
  /// Why it was asked; Errc::cancelled when it was not.
  [[nodiscard]] Error error() const;
  /// Returns what waiters are told of a failure: instead of a cancellation, the reason for it.
  [[nodiscard]] std::exception_ptr explain(const std::exception_ptr& failure) const;

 private:
  const std::string what_;
  mutable Mutex mutex_;
  std::optional<Error> reason_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::core
