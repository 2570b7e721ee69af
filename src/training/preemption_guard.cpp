// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/training/step_options.hpp"

namespace cairn {
namespace {

constexpr int kSignals = 65;  // Of Linux: 1 to 64.

// The state of the guard is the process's, as signals are: their handler is given nothing else. It has no
// locks, because the handler may interrupt a thread that holds one.
std::atomic<bool> is_guarded{false};
std::atomic<bool> has_come{false};
std::array<struct sigaction, kSignals> earlier{};
static_assert(std::atomic<bool>::is_always_lock_free);
/// A bit for each signal that this thread is handling.
constinit thread_local volatile std::uint64_t signals_handled = 0;

/// Calls what handled the signal before. A default action or none is not done: the guard is there to prevent it.
void handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;  // Of what the signal has interrupted.
  has_come.store(true, std::memory_order_relaxed);
  const std::uint64_t bit = std::uint64_t{1} << (signal - 1);
  if ((signals_handled & bit) != 0) {
    return;  // The handler before has called this one: it was put on top of an earlier guard's.
  }
  signals_handled = signals_handled | bit;
  const struct sigaction& before = earlier[static_cast<std::size_t>(signal)];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
  signals_handled = signals_handled & ~bit;
  errno = error;
}

}  // namespace

PreemptionGuard::PreemptionGuard(std::vector<int> signals) : signals_(std::move(signals)) {
  std::sort(signals_.begin(), signals_.end());
  signals_.erase(std::unique(signals_.begin(), signals_.end()), signals_.end());
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    if (std::binary_search(signals_.begin(), signals_.end(), fault)) {
      throw Error(
          Errc::invalid_argument,
          fmt::format("a PreemptionGuard of signal {}: it says that the program is at fault, which would "
                      "do the same again for ever",
                      fault));
    }
  }
  if (signals_.empty()) {
    throw Error(Errc::invalid_argument, "PreemptionGuard needs at least one signal");
  }
  if (is_guarded.exchange(true)) {
    throw Error(Errc::already_exists,
                "only one PreemptionGuard per process: signals belong to the whole process");
  }
  has_come = false;
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    const int signal = signals_[i];
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    // First what was there: the handler may be called before sigaction returns.
    const bool is_one = signal > 0 && signal < kSignals;
    if (!is_one || sigaction(signal, nullptr, &earlier[static_cast<std::size_t>(signal)]) != 0 ||
        sigaction(signal, &action, nullptr) != 0) {
      restore(i);
      throw Error(Errc::invalid_argument, fmt::format("PreemptionGuard cannot handle signal {}", signal));
    }
  }
}

PreemptionGuard::~PreemptionGuard() {
  restore(signals_.size());
}

void PreemptionGuard::restore(std::size_t count) noexcept {
  while (count-- > 0) {
    const int signal = signals_[count];
    struct sigaction now {};
    // A handler that was put on top of ours since then calls ours, and stays.
    if (sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == handle) {
      static_cast<void>(sigaction(signal, &earlier[static_cast<std::size_t>(signal)], nullptr));
    }
  }
  is_guarded = false;
}

bool PreemptionGuard::is_preempted() const noexcept {
  return has_come.load(std::memory_order_relaxed);
}

}  // namespace cairn
