// SPDX-License-Identifier: Apache-2.0
#include "async/internal/gate.hpp"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cairn::async {
namespace {

TEST(Gate, LetsVisitorsInUntilItIsClosed) {
  const Gate gate;

  EXPECT_TRUE(gate.try_enter());
  gate.close();

  EXPECT_FALSE(gate.try_enter());
  EXPECT_TRUE(gate.is_closed());
}

TEST(Gate, TellsAtOnceWhenNobodyIsInside) {
  const Gate gate;
  { const Gate::Visit visit = gate.try_enter(); }
  EXPECT_FALSE(gate.left().has_happened());

  gate.close();

  EXPECT_TRUE(gate.left().has_happened());
}

TEST(Gate, TellsWhenTheLastVisitorLeaves) {
  const Gate gate;
  Gate::Visit first = gate.try_enter();
  Gate::Visit second = gate.try_enter();
  gate.close();

  first.leave();
  EXPECT_FALSE(gate.left().has_happened());
  second.leave();

  EXPECT_TRUE(gate.left().has_happened());
}

TEST(Gate, CountsAVisitThatWasMovedOnce) {
  const Gate gate;
  Gate::Visit first = gate.try_enter();
  Gate::Visit moved = std::move(first);
  gate.close();

  first.leave();  // NOLINT(bugprone-use-after-move): it is empty, which is what is tested.
  EXPECT_FALSE(gate.left().has_happened());
  moved = Gate::Visit();

  EXPECT_TRUE(gate.left().has_happened());
}

TEST(Gate, HasNobodyInsideOnceItHasTold) {
  for (int round = 0; round < 200; ++round) {
    const Gate gate;
    std::atomic<int> inside{0};
    std::atomic<bool> has_told{false};
    std::atomic<int> late{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (const Gate::Visit visit = gate.try_enter()) {
          ++inside;
          late += has_told ? 1 : 0;
          --inside;
        }
      });
    }
    gate.left().on_complete([&](const std::exception_ptr&) { has_told = true; });

    gate.close();
    gate.left().get();
    EXPECT_EQ(inside, 0);
    threads.clear();

    EXPECT_EQ(late, 0);
  }
}

}  // namespace
}  // namespace cairn::async
