// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <csignal>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

namespace cairn::cli {

/// Leaves a command that a signal has stopped: what it had written is removed on the way.
class Interrupted final : public std::exception {
 public:
  Interrupted(int number, std::string text) : number_(number), text_(std::move(text)) {}

  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  /// The number of the signal.
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
  std::string text_;
};

/// Ends the process by a signal that nothing handles.
[[noreturn]] void end_by(int number);

/// Lets a command that writes something end in order: while it lives, the first SIGINT, SIGTERM or SIGHUP only asks the
/// command to stop, and a second one ends the process at once. A signal that the process ignores stays ignored.
///
/// A thread waits for them. Threads of the library block all signals, and the calling thread blocks these.
/// Threads: `has_come` from any; the rest from the one that has made it.
class StopSignals {
 public:
  /// `target` is what the command writes.
  ///
  /// Errors: as start_thread.
  explicit StopSignals(std::filesystem::path target);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  [[nodiscard]] bool has_come() const noexcept { return number_ != 0; }
  /// To be called before the target has its name.
  ///
  /// Errors: Interrupted, when a signal has come.
  void check() const;
  /// To be called once the target has its name.
  ///
  /// Errors: as `check`.
  void finish() const;

 private:
  void watch();

  const std::filesystem::path target_;
  std::atomic<int> number_{0};  // Of the first signal.
  std::atomic<bool> is_over_{false};
  sigset_t awaited_{};
  sigset_t before_{};  // What the calling thread blocked.
  std::thread watcher_;
};

}  // namespace cairn::cli
