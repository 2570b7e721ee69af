// SPDX-License-Identifier: Apache-2.0
#include "verdicts/harness_clock.hpp"

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>

namespace cairn::verdicts {
namespace {

constexpr std::chrono::seconds kStep{3};

TEST(HarnessClock, IsSet) {
  HarnessClock clock(true);
  const Moment begin = clock.steady_now();
  bool has_rung = false;
  clock.at(begin + kStep, [&has_rung] { has_rung = true; });

  clock.advance_to(begin + kStep, clock.looks());

  EXPECT_EQ(clock.steady_now(), begin + kStep);
  EXPECT_TRUE(has_rung);
}

TEST(HarnessClock, IsNotSetAfterSomebodyHasLookedAtIt) {
  HarnessClock clock(true);
  const std::uint64_t looks = clock.looks();
  const Moment begin = clock.steady_now();

  clock.advance_to(begin + kStep, looks);

  EXPECT_EQ(clock.steady_now(), begin);
}

}  // namespace
}  // namespace cairn::verdicts
