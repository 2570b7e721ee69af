// SPDX-License-Identifier: Apache-2.0
#include "base/internal/thread.hpp"

#include <sys/resource.h>
#include <system_error>

#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

#include "cairn/base/error.hpp"

#include "base/internal/limits_behind.hpp"

namespace cairn {
namespace {

thread_local bool is_own = false;

/// Blocks what a program may want to be told by signals, on the calling thread, while this is there. Signals of faults
/// cannot wait: they are about the instruction that a thread is at.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      ::sigdelset(&all, fault);
    }
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

std::thread start_thread(const std::string& name, std::function<void()> body) {
  auto run = [title = name.substr(0, 15), work = std::move(body)]() noexcept {
    is_own = true;
    ::pthread_setname_np(::pthread_self(), title.c_str());
    work();
  };
  const BlockedSignals inherited;
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    const std::error_code code(error.code().value(), std::system_category());
    throw Error(code, fmt::format("start a thread '{}' ({})", name, limits_of_threads()));
  }
}

bool is_own_thread() noexcept {
  return is_own;
}

void lower_priority(int niceness) noexcept {
  if (niceness > 0) {
    const int now = ::getpriority(PRIO_PROCESS, 0);  // On Linux, of the thread.
    ::setpriority(PRIO_PROCESS, 0, now + niceness);  // The kernel knows the most.
  }
}

}  // namespace cairn
