// SPDX-License-Identifier: Apache-2.0
#include "base/internal/parallel_for.hpp"

#include <atomic>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "base/internal/mutex.hpp"

namespace cairn {
namespace {

using ::testing::Each;

TEST(ParallelFor, CallsForEachNumberOnce) {
  for (const std::size_t threads : {0, 1, 2, 7}) {
    for (const std::size_t count : {0, 1, 3, 100}) {
      std::vector<std::atomic<int>> calls(count);
      parallel_for(count, threads, [&](std::size_t i) { ++calls[i]; });
      EXPECT_THAT(std::vector<int>(calls.begin(), calls.end()), Each(1)) << threads << " threads";
    }
  }
}

TEST(ParallelFor, UsesSoManyThreads) {
  Mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> inside = 0;
  parallel_for(3, 3, [&](std::size_t) {
    for (++inside; inside < 3;) {  // Nobody takes two.
      std::this_thread::yield();
    }
    const MutexLock lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_TRUE(seen.contains(std::this_thread::get_id()));
}

TEST(ParallelFor, ThrowsTheFailureOfTheFirstNumberAndBeginsNothingAfterIt) {
  std::atomic<std::size_t> calls = 0;
  const auto fail_from_5 = [&](std::size_t i) {
    ++calls;
    if (i >= 5) {
      throw std::runtime_error(std::to_string(i));
    }
  };
  EXPECT_THAT([&] { parallel_for(1000, 4, fail_from_5); },
              ::testing::Throws<std::runtime_error>(
                  ::testing::Property(&std::runtime_error::what, ::testing::StrEq("5"))));
  EXPECT_LT(calls, 20u);
}

}  // namespace
}  // namespace cairn
