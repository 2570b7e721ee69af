// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signals.hpp"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/internal/thread.hpp"

namespace cairn::cli {
namespace {

constexpr int kWake =
    SIGURG;  // Ends the watcher. Sent by anybody else it does nothing, as it does by default.

bool is_ignored(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) != 0 || now.sa_handler == SIG_IGN;
}

}  // namespace

void end_by(int number) {
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, number);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  std::raise(number);
  std::_Exit(128 + number);  // Something has begun to handle it: the status that a shell has for it.
}

StopSignals::StopSignals(std::filesystem::path target) : target_(std::move(target)) {
  ::sigemptyset(&awaited_);
  ::sigaddset(&awaited_, kWake);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(number)) {  // As SIGHUP is under nohup.
      ::sigaddset(&awaited_, number);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &awaited_, &before_);
  try {
    watcher_ = start_thread("cairn-signals", [this] { watch(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    throw;
  }
}

StopSignals::~StopSignals() {
  is_over_ = true;
  ::pthread_kill(watcher_.native_handle(), kWake);
  watcher_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignals::check() const {
  if (const int number = number_; number != 0) {
    throw Interrupted(number, fmt::format("stopped by SIG{}: what was written of {} is removed",
                                          ::sigabbrev_np(number), target_.string()));
  }
}

void StopSignals::finish() const {
  if (const int number = number_; number != 0) {
    throw Interrupted(number, fmt::format("stopped by SIG{}, when {} was written already",
                                          ::sigabbrev_np(number), target_.string()));
  }
}

void StopSignals::watch() {
  for (;;) {
    int number = 0;
    if (::sigwait(&awaited_, &number) == 0 && number != kWake && number_.exchange(number) != 0) {
      end_by(number);
    }
    if (is_over_) {
      return;
    }
  }
}

}  // namespace cairn::cli
