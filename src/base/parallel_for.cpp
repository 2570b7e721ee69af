// SPDX-License-Identifier: Apache-2.0
#include "base/internal/parallel_for.hpp"

#include <system_error>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"
#include "base/internal/thread.hpp"

namespace cairn {

void parallel_for(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> has_failed = false;
  std::vector<std::exception_ptr> failures(count);
  const auto work = [&] {
    for (std::size_t i = next++; i < count && !has_failed; i = next++) {
      try {
        body(i);
      } catch (...) {
        failures[i] = std::current_exception();
        has_failed = true;
      }
    }
  };
  const std::size_t others = std::max<std::size_t>(std::min(threads, count), 1) - 1;
  std::vector<std::thread> helpers;
  helpers.reserve(others);
  try {
    while (helpers.size() < others) {
      helpers.push_back(start_thread("cairn-for", work));
    }
  } catch (const std::system_error&) {
    CAIRN_PROBE("base.no_thread_to_share_work");  // Those that are there do all of it.
  }
  work();
  for (std::thread& helper : helpers) {
    helper.join();
  }
  const auto failure =
      std::find_if(failures.begin(), failures.end(), [](const auto& one) { return one != nullptr; });
  if (failure != failures.end()) {
    std::rethrow_exception(*failure);
  }
}

void parallel_in_order(std::size_t count, std::size_t threads,
                       const std::function<std::function<void()>(std::size_t)>& prepare) {
  Mutex mutex;  // Guards the turn and the failure; the call whose turn it is keeps it.
  Condition changed;
  std::size_t turn = 0;
  std::size_t failed = count;
  parallel_for(count, threads, [&](std::size_t i) {
    try {
      const std::function<void()> finish = prepare(i);
      MutexLock lock(mutex);
      changed.wait(lock, [&] { return turn == i || failed < i; });
      if (turn == i) {
        finish();
        ++turn;
        changed.notify_all();
      }
    } catch (...) {
      const MutexLock lock(mutex);
      failed = std::min(failed, i);
      changed.notify_all();
      throw;
    }
  });
}

}  // namespace cairn
