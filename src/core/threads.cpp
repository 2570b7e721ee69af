// SPDX-License-Identifier: Apache-2.0
#include "core/threads.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"

namespace cairn::core {
namespace {

constexpr std::size_t kCoroutineThreads = 2;

/// More threads than any program has operations that block at once.
constexpr std::size_t kMostThreads = 1024;

std::size_t worker_threads(const ContextOptions& options, std::size_t ranks) {
  CAIRN_ASSERT(ranks > 0, "a machine has one rank at least");
  return options.worker_threads != 0 ? options.worker_threads
                                     : std::max<std::size_t>(std::thread::hardware_concurrency() / ranks, 1);
}

int checked_niceness(const ContextOptions& options) {
  constexpr int kMost = 19;
  if (options.background_niceness < 0 || options.background_niceness > kMost) {
    throw Error(Errc::invalid_argument, fmt::format("ContextOptions::background_niceness is {}, not 0 to {}",
                                                    options.background_niceness, kMost));
  }
  return options.background_niceness;
}

}  // namespace

Threads::Threads(const ContextOptions& options, const Clock& clock, std::size_t ranks)
    : workers({worker_threads(options, ranks), kMostThreads}, "cairn-worker"),
      calls({1, kMostThreads}, "cairn-call"),
      background({1, kMostThreads}, "cairn-behind", checked_niceness(options)),
      coroutines({kCoroutineThreads, kMostThreads}, "cairn-task"),
      timers(clock) {}

bool Threads::runs_this_thread() const noexcept {
  return coroutines.runs_this_thread() || workers.runs_this_thread() || calls.runs_this_thread() ||
         background.runs_this_thread() || timers.runs_this_thread();
}

}  // namespace cairn::core
