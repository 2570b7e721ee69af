// SPDX-License-Identifier: Apache-2.0
#include "base/internal/assert.hpp"

#include <cstdlib>

#include <gmock/gmock.h>

namespace cairn {
namespace {

#ifdef NDEBUG
constexpr bool kHasAssertions = false;
#else
constexpr bool kHasAssertions = true;
#endif

TEST(Assertions, SayWhatMustHoldAndWhere) {
  if (!kHasAssertions) {
    GTEST_SKIP() << "this build has no assertions";
  }

  EXPECT_EXIT(CAIRN_ASSERT(1 + 1 == 3, "sums are right"), ::testing::KilledBySignal(SIGABRT),
              "assert_test.cpp:[0-9]+: this must hold: sums are right .1 \\+ 1 == 3");
}

TEST(Assertions, AreEvaluatedOnlyWhereTheyAreOn) {
  int evaluations = 0;

  CAIRN_ASSERT(++evaluations > 0, "counts what is evaluated");

  EXPECT_EQ(evaluations, kHasAssertions ? 1 : 0);
}

}  // namespace
}  // namespace cairn
