// SPDX-License-Identifier: Apache-2.0
#include "base/internal/natural_order.hpp"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(NaturalOrder, ComparesDigitsAsNumbers) {
  EXPECT_TRUE(is_naturally_less("step_9", "step_10"));
  EXPECT_FALSE(is_naturally_less("step_10", "step_9"));
}

TEST(NaturalOrder, PutsAPrefixFirst) {
  EXPECT_TRUE(is_naturally_less("step", "step_1"));
}

TEST(NaturalOrder, TellsNumbersWithLeadingZerosApart) {
  EXPECT_TRUE(is_naturally_less("07", "7"));
}

}  // namespace
}  // namespace cairn
