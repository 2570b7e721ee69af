// SPDX-License-Identifier: Apache-2.0
#include "core/threads.hpp"

#include <algorithm>
#include <cstddef>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "base/internal/clock.hpp"
#include "support/fails.hpp"

namespace cairn::core {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

ContextOptions with_niceness(int niceness) {
  ContextOptions options;
  options.background_niceness = niceness;
  return options;
}

TEST(Threads, AreAsManyAsWereAskedFor) {
  ContextOptions options;
  options.worker_threads = 3;

  EXPECT_EQ(Threads(options, system_clock()).workers.size(), 3U);
}

TEST(Threads, ShareTheCoresWithTheOtherRanksOfTheirMachine) {
  const std::size_t cores = Threads(ContextOptions(), system_clock()).workers.size();

  EXPECT_EQ(Threads(ContextOptions(), system_clock(), 2).workers.size(), std::max<std::size_t>(cores / 2, 1));
  EXPECT_EQ(Threads(ContextOptions(), system_clock(), 10'000).workers.size(), 1U);
}

TEST(Threads, KnowTheirOwn) {
  Threads threads(ContextOptions(), system_clock());
  EXPECT_FALSE(threads.runs_this_thread());

  for (async::ThreadPool* pool :
       {&threads.workers, &threads.calls, &threads.background, &threads.coroutines}) {
    bool is_own = false;
    const async::Event looked;
    pool->submit([&] {
      is_own = threads.runs_this_thread();
      looked.set();
    });
    looked.get();
    EXPECT_TRUE(is_own);
  }
}

TEST(Threads, TakeNoNicenessThatIsNone) {
  for (const int niceness : {-1, 20}) {
    EXPECT_THAT([&] { Threads(with_niceness(niceness), system_clock()); },
                Fails(Errc::invalid_argument, HasSubstr("background_niceness")));
  }
}

}  // namespace
}  // namespace cairn::core
