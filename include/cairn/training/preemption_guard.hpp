// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

namespace cairn {

/// Turns signals that announce the end of the process, SIGTERM as a rule, into a flag, so that a training saves once
/// more and ends by itself.
///
/// The handler that was there before is called, too, after the flag is set; where there was none, the signal does
/// nothing else: the program must end. The destructor puts it back. One guard at a time in a process: signals belong
/// to all of it.
/// Example: cairn::PreemptionGuard guard;
///          options.preemption = &guard;
///          options.save = save_when::any_of({save_when::every_steps(1000), save_when::preempted()});
///          … while (step < last && !guard.is_preempted()) …
/// Threads: `is_preempted` may be called from any thread, and from handlers of signals.
class PreemptionGuard {
 public:
  /// Errors: Errc::already_exists: there is another guard; Errc::invalid_argument: no signal, one that cannot be
  ///         caught, or one of a fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL).
  explicit PreemptionGuard(std::vector<int> signals = {SIGTERM});
  ~PreemptionGuard();
  PreemptionGuard(const PreemptionGuard&) = delete;
  PreemptionGuard& operator=(const PreemptionGuard&) = delete;

  /// Returns whether one of the signals has come since the guard was made.
  [[nodiscard]] bool is_preempted() const noexcept;

 private:
  void restore(std::size_t count) noexcept;

  std::vector<int> signals_;
};

}  // namespace cairn
