// SPDX-License-Identifier: Apache-2.0
#include "proto/parallel.hpp"

#include <system_error>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "base/internal/thread.hpp"

namespace cairn::proto {

void in_parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& body) {
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
  std::vector<std::thread> others;
  const std::size_t wanted = std::min<std::size_t>(std::max(1U, threads), std::max<std::size_t>(count, 1));
  others.reserve(wanted);
  try {
    while (others.size() + 1 < wanted) {
      others.push_back(start_thread("cairn-proto", work));
    }
  } catch (const std::system_error&) {
    // A thread less: those that are there do all of it.
  }
  work();
  for (std::thread& other : others) {
    other.join();
  }
  const auto failure =
      std::find_if(failures.begin(), failures.end(), [](const auto& one) { return one != nullptr; });
  if (failure != failures.end()) {
    std::rethrow_exception(*failure);
  }
}

unsigned threads_for(std::uint64_t bytes, unsigned wanted) {
  if (wanted != 0) {
    return wanted;
  }
  constexpr std::uint64_t kMostBytesOfOneThread = std::uint64_t{1} << 20;
  return bytes < kMostBytesOfOneThread ? 1 : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace cairn::proto
