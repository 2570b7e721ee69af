// SPDX-License-Identifier: Apache-2.0
#include "async/internal/timers.hpp"

#include <chrono>
#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "async/parked.hpp"
#include "support/manual_clock.hpp"

namespace cairn::async {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::ManualClock;

TEST(Timers, CallsNobodyBeforeTheTime) {
  ManualClock clock;
  Timers timers(clock);
  const Event called;
  timers.at(clock.steady_now() + 2s, [&] { called.set(); });

  clock.advance(1s);
  EXPECT_FALSE(called.wait_for(20ms));
  clock.advance(1s);

  called.get();
}

TEST(Timers, CallInTheOrderOfTheirTimes) {
  ManualClock clock;
  Timers timers(clock);
  std::vector<int> calls;
  const Event all;
  timers.at(clock.steady_now() + 3s, [&] {
    calls.push_back(3);
    all.set();
  });
  timers.at(clock.steady_now() + 1s, [&] { calls.push_back(1); });
  timers.at(clock.steady_now() + 2s, [&] { calls.push_back(2); });

  clock.advance(5s);
  all.get();

  EXPECT_THAT(calls, ElementsAre(1, 2, 3));
}

TEST(Timers, DropWhatIsForgotten) {
  ManualClock clock;
  Timers timers(clock);
  const Token token = make_token();
  const Event later_one;
  const Timers::Id id = timers.at(clock.steady_now() + 1s, [held = token] { *held = 1; });
  timers.at(clock.steady_now() + 2s, [&] { later_one.set(); });

  timers.forget(id);
  EXPECT_EQ(token.use_count(), 1);
  clock.advance(2s);
  later_one.get();

  EXPECT_EQ(*token, 0);
}

TEST(Timers, WaitForEverWhenAsked) {
  ManualClock clock;
  const Event called;
  {
    Timers timers(clock);
    timers.at(later(clock.steady_now(), std::chrono::nanoseconds::max()), [&] { called.set(); });
    clock.advance(1000h);
    EXPECT_FALSE(called.wait_for(20ms));
  }

  EXPECT_FALSE(called.has_happened());
}

TEST(Timers, MayBeUsedFromWhatTheyCall) {
  ManualClock clock;
  Timers timers(clock);
  const Event second;
  timers.at(clock.steady_now(), [&] { timers.at(clock.steady_now(), [&] { second.set(); }); });

  EXPECT_TRUE(second.wait_for(10s));
}

TEST(Later, StopsAtTheLastMoment) {
  const auto now = std::chrono::steady_clock::now();

  EXPECT_EQ(later(now, std::chrono::nanoseconds::max()), std::chrono::steady_clock::time_point::max());
  EXPECT_EQ(later(now, 1s), now + 1s);
}

}  // namespace
}  // namespace cairn::async
