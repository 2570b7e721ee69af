// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/core/context.hpp"
#include "cairn/training/save_policy.hpp"

#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::training {

/// Holds a file for each program that has saved steps of a run.
inline constexpr std::string_view kRunsName = ".cairn-runs";
/// More are not kept: the oldest go.
inline constexpr std::size_t kMostRuns = 1000;

/// Records in the root of a run how its programs went: when each began, when it was last known to live, and
/// whether it was closed.
///
/// Threads: every method may be called from any thread.
/// Source: docs/format.md, "Steps of a training".
class RunHistory {
 public:
  /// Reads what earlier programs have left; what is not a record of theirs, or cannot be read, is passed over.
  /// `is_kept`: this one is entered, too.
  RunHistory(const std::filesystem::path& root, bool is_kept, const Context& context);

  /// Returns whether programs are entered: else `enter` does nothing.
  [[nodiscard]] bool is_kept() const noexcept { return is_kept_; }

  /// A step was saved, or the program is `closed`; one that has saved nothing is not entered. What cannot be written
  /// is left out: an estimate is not a reason to fail.
  void enter(bool is_closed) noexcept;

  /// The run has a level in memory, and this program has found steps there or not; told before all else.
  void set_found(bool has_found) noexcept { has_found_ = has_found; }

  /// Returns what is known now, this program included.
  [[nodiscard]] FailureHistory failures() const;
  /// The mean time between two failures that steps on disk are for: those that lose the memory, where there is one.
  [[nodiscard]] std::chrono::nanoseconds mtbf() const;

 private:
  using Time = std::chrono::system_clock::time_point;

  void read();
  void write(bool is_closed) const;

  const std::filesystem::path root_;
  const bool is_kept_;
  io::Syscalls& syscalls_;
  const Clock& clock_;
  const Time begun_;
  const std::string name_;
  FailureHistory earlier_;
  bool has_failed_before_ = false;  // The program before this one.
  std::optional<bool> has_found_;
  Mutex mutex_;  // Protects the file, too.
  bool is_entered_ CAIRN_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn::training
