// SPDX-License-Identifier: Apache-2.0
#include "base/internal/parallel_for.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <numeric>
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

TEST(ParallelInOrder, EndsNumbersInOrderOneAtATime) {
  std::vector<std::size_t> ended;  // By several threads, without a lock of its own.
  parallel_in_order(100, 4, [&](std::size_t i) {
    if (i % 7 == 0) {
      std::this_thread::yield();
    }
    return [&ended, i] { ended.push_back(i); };
  });
  std::vector<std::size_t> in_order(100);
  std::iota(in_order.begin(), in_order.end(), std::size_t{0});
  EXPECT_EQ(ended, in_order);
}

TEST(ParallelInOrder, EndsWhatComesBeforeAFailureAndNothingBehindIt) {
  for (const bool while_preparing : {false, true}) {
    std::vector<std::size_t> ended;
    const auto fail_at_5 = [&](std::size_t i) -> std::function<void()> {
      if (while_preparing && i >= 5) {
        throw std::runtime_error(std::to_string(i));
      }
      return [&ended, i] {
        if (i == 5) {
          throw std::runtime_error("5");
        }
        ended.push_back(i);
      };
    };
    EXPECT_THAT([&] { parallel_in_order(1000, 4, fail_at_5); },
                ::testing::Throws<std::runtime_error>(
                    ::testing::Property(&std::runtime_error::what, ::testing::StrEq("5"))));
    EXPECT_THAT(ended, ::testing::ElementsAre(0u, 1u, 2u, 3u, 4u));
  }
}

}  // namespace
}  // namespace cairn
