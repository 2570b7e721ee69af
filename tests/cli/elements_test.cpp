// SPDX-License-Identifier: Apache-2.0
#include "cli/elements.hpp"

#include <cstdint>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

namespace cairn::cli {
namespace {

using Number = ArrayStatistics::Number;

TEST(NumberText, IsThatOfAnElementOfTheType) {
  EXPECT_EQ(number_text(Number(0.10009765625), DType::bfloat16), "0.1");
  EXPECT_EQ(number_text(Number(-6.0), DType::float4), "-6");
  EXPECT_EQ(number_text(Number(99998.0), DType::int32), "99998");
  EXPECT_EQ(number_text(Number(1.0), DType::boolean), "true");
  EXPECT_EQ(number_text(Number(-0.0), DType::float32), "-0");
  EXPECT_EQ(number_text(Number(std::numeric_limits<double>::infinity()), DType::float64), "inf");
}

TEST(NumberText, HasAllDigitsOfIntegersThatDoNotFitInADouble) {
  EXPECT_EQ(number_text(Number(std::numeric_limits<std::uint64_t>::max()), DType::uint64),
            "18446744073709551615");
  EXPECT_EQ(number_text(Number(std::numeric_limits<std::int64_t>::min() + 1), DType::int64),
            "-9223372036854775807");
}

TEST(NumberText, IsEmptyWithoutANumber) {
  EXPECT_EQ(number_text(std::nullopt, DType::float32), "");
}

}  // namespace
}  // namespace cairn::cli
