// SPDX-License-Identifier: Apache-2.0
#include "core/caller_memory.hpp"

#include <gtest/gtest.h>

namespace cairn::core {
namespace {

TEST(CallerMemory, OfNothingIsReleasedFromTheStart) {
  const CallerMemory caller_memory(CallerMemoryUse::unused);

  EXPECT_TRUE(caller_memory.released().has_happened());
  EXPECT_TRUE(caller_memory.blocking_gate().try_enter());
}

TEST(CallerMemory, UntilStagedIsReleasedWhenTheBlockingPhaseIsOverAndItsVisitorsHaveLeft) {
  const CallerMemory caller_memory(CallerMemoryUse::until_staged);
  async::Gate::Visit visit = caller_memory.blocking_gate().try_enter();

  caller_memory.end_blocking_phase();
  EXPECT_FALSE(caller_memory.released().has_happened());
  EXPECT_FALSE(caller_memory.blocking_gate().try_enter());
  visit.leave();

  EXPECT_TRUE(caller_memory.released().has_happened());
  EXPECT_TRUE(caller_memory.background_gate().try_enter());
}

TEST(CallerMemory, ToTheEndHasOneGateForBothPhases) {
  const CallerMemory caller_memory(CallerMemoryUse::until_done);
  caller_memory.end_blocking_phase();
  async::Gate::Visit visit = caller_memory.background_gate().try_enter();
  ASSERT_TRUE(visit);

  caller_memory.give_back();
  EXPECT_FALSE(caller_memory.released().has_happened());
  visit.leave();

  EXPECT_TRUE(caller_memory.is_to_the_end());
  EXPECT_TRUE(caller_memory.released().has_happened());
}

TEST(CallerMemory, GivenBackLetsNobodyInAnyMore) {
  const CallerMemory caller_memory(CallerMemoryUse::until_staged);

  caller_memory.give_back();

  EXPECT_TRUE(caller_memory.released().has_happened());
  EXPECT_FALSE(caller_memory.blocking_gate().try_enter());
  EXPECT_FALSE(caller_memory.background_gate().try_enter());
}

}  // namespace
}  // namespace cairn::core
