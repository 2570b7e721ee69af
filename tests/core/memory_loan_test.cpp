// SPDX-License-Identifier: Apache-2.0
#include "core/memory_loan.hpp"

#include <gtest/gtest.h>

namespace cairn::core {
namespace {

TEST(MemoryLoan, OfNothingIsReleasedFromTheStart) {
  const MemoryLoan loan(CallersMemory::unused);

  EXPECT_TRUE(loan.released().has_happened());
  EXPECT_TRUE(loan.blocking_gate().try_enter());
}

TEST(MemoryLoan, UntilStagedIsReleasedWhenTheBlockingPhaseIsOverAndItsVisitorsHaveLeft) {
  const MemoryLoan loan(CallersMemory::until_staged);
  async::Gate::Visit visit = loan.blocking_gate().try_enter();

  loan.end_blocking_phase();
  EXPECT_FALSE(loan.released().has_happened());
  EXPECT_FALSE(loan.blocking_gate().try_enter());
  visit.leave();

  EXPECT_TRUE(loan.released().has_happened());
  EXPECT_TRUE(loan.background_gate().try_enter());
}

TEST(MemoryLoan, ToTheEndHasOneGateForBothPhases) {
  const MemoryLoan loan(CallersMemory::until_done);
  loan.end_blocking_phase();
  async::Gate::Visit visit = loan.background_gate().try_enter();
  ASSERT_TRUE(visit);

  loan.give_back();
  EXPECT_FALSE(loan.released().has_happened());
  visit.leave();

  EXPECT_TRUE(loan.is_to_the_end());
  EXPECT_TRUE(loan.released().has_happened());
}

TEST(MemoryLoan, GivenBackLetsNobodyInAnyMore) {
  const MemoryLoan loan(CallersMemory::until_staged);

  loan.give_back();

  EXPECT_TRUE(loan.released().has_happened());
  EXPECT_FALSE(loan.blocking_gate().try_enter());
  EXPECT_FALSE(loan.background_gate().try_enter());
}

}  // namespace
}  // namespace cairn::core
