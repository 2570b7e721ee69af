// SPDX-License-Identifier: Apache-2.0
#include "core/deadlines.hpp"

#include <chrono>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "async/internal/event.hpp"
#include "support/manual_clock.hpp"

namespace cairn::core {
namespace {

using namespace std::chrono_literals;

class DeadlinesTest : public ::testing::Test {
 protected:
  /// Waits until the timers have called everything that is due.
  void let_timers_call() {
    const async::Event called;
    timers_.at(clock_.steady_now(), [called] { called.set(); });
    called.get();
  }

  testing::ManualClock clock_;
  async::ThreadPool pool_{1, "test"};
  async::Timers timers_{clock_};
};

TEST_F(DeadlinesTest, CallOnThePoolAtTheirTime) {
  Deadlines deadlines(timers_, pool_);
  const async::Event called;
  bool is_on_pool = false;
  deadlines.at(clock_.steady_now() + 1s, [&] {
    is_on_pool = pool_.runs_this_thread();
    called.set();
  });
  let_timers_call();
  EXPECT_FALSE(called.has_happened());

  clock_.advance(1s);
  called.get();

  EXPECT_TRUE(is_on_pool);
}

TEST_F(DeadlinesTest, DoNotCallWhenTheyWereForgotten) {
  Deadlines deadlines(timers_, pool_);
  const async::Event called;
  deadlines.at(clock_.steady_now() + 1s, [called] { called.set(); });

  deadlines.forget();
  clock_.advance(1s);
  let_timers_call();

  EXPECT_FALSE(called.has_happened());
}

TEST_F(DeadlinesTest, AreForgottenWhenTheyGoAway) {
  std::optional<Deadlines> deadlines(std::in_place, timers_, pool_);
  const async::Event called;
  deadlines->at(clock_.steady_now() + 1s, [called] { called.set(); });

  deadlines.reset();
  clock_.advance(1s);
  let_timers_call();

  EXPECT_FALSE(called.has_happened());
}

}  // namespace
}  // namespace cairn::core
