// SPDX-License-Identifier: Apache-2.0
#include "cli/text.hpp"

#include <chrono>
#include <string>

#include <gmock/gmock.h>

#include "cli/progress_bar.hpp"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(DisplayWidth, CountsTheColumnsOfATerminal) {
  EXPECT_EQ(display_width("weights"), 7u);
  EXPECT_EQ(display_width("größe"), 5u);
  EXPECT_EQ(display_width("重み"), 4u);
  EXPECT_EQ(display_width("한국"), 4u);
  EXPECT_EQ(display_width("e\u0301"), 1u);
  EXPECT_EQ(display_width("\U0001F600"), 2u);
  EXPECT_EQ(display_width("\xff"), 1u);
}

TEST(DTypeText, IsWhatTheEnumeratorsAreCalled) {
  EXPECT_EQ(tools::dtype_text(DType::boolean), "boolean");
  EXPECT_EQ(tools::dtype_text(DType::float32), "float32");
  EXPECT_EQ(tools::dtype_text(DType::float8_e8m0), "float8_e8m0");
  EXPECT_EQ(tools::dtype_text(DType::complex128), "complex128");
  EXPECT_EQ(tools::dtype_text(DType{}), "?");
}

TEST(DTypeText, IsReadAgain) {
  for (int number = static_cast<int>(kFirstDType); number <= static_cast<int>(kLastDType); ++number) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_EQ(tools::dtype_of(tools::dtype_text(dtype)), dtype);
  }
  EXPECT_FALSE(tools::dtype_of("?"));
  EXPECT_FALSE(tools::dtype_of("F32"));
  EXPECT_FALSE(tools::dtype_of(""));
}

TEST(Shortened, KeepsTheBeginningAndTheEnd) {
  EXPECT_EQ(shortened("model/layers/weight", 19), "model/layers/weight");
  EXPECT_EQ(shortened("model/layers/weight", 11), "model…eight");
  EXPECT_EQ(shortened("重み重み重み", 7), "重…み");
  EXPECT_EQ(shortened("abc", 1), "…");
  EXPECT_EQ(shortened("abc", 0), "");
}

TEST(Wrapped, BreaksAtBlanksAndIndentsWhatFollows) {
  EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
  EXPECT_EQ(wrapped("one two", 6, 2), "one\n  two");
  EXPECT_EQ(wrapped("alongerword b", 5), "alongerword\nb");
}

TEST(DurationText, HasATenthBelowTenSeconds) {
  EXPECT_EQ(duration_text(std::chrono::milliseconds(420)), "0.4 s");
  EXPECT_EQ(duration_text(std::chrono::milliseconds(12'900)), "12 s");
}

TEST(SizeText, CountsBytesBelowAKibibyte) {
  EXPECT_EQ(size_text(1023), "1023 B");
}

TEST(SizeText, GivesOneDecimalOfBinaryUnits) {
  EXPECT_EQ(size_text(std::uint64_t{4} << 30), "4.0 GiB");
}

TEST(SizeText, TakesTheNextUnitBeforeItWouldSayAThousandAndTwentyFour) {
  EXPECT_EQ(size_text((std::uint64_t{1} << 30) - 1), "1.0 GiB");
}

TEST(SizeText, SaysTheLargestNumber) {
  EXPECT_EQ(size_text(~std::uint64_t{0}), "16.0 EiB");
}

TEST(CountText, GroupsDigits) {
  EXPECT_EQ(count_text(1234567), "1,234,567");
}

TEST(CountText, AgreesWithTheNoun) {
  EXPECT_EQ(count_text(1, "array"), "1 array");
  EXPECT_EQ(count_text(0, "array"), "0 arrays");
}

TEST(AgeText, TakesTheNextUnitWhenTwoOfItHavePassed) {
  EXPECT_EQ(age_text(std::chrono::seconds(0)), "0 s");
  EXPECT_EQ(age_text(std::chrono::seconds(119)), "119 s");
  EXPECT_EQ(age_text(std::chrono::seconds(120)), "2 min");
  EXPECT_EQ(age_text(std::chrono::minutes(119)), "119 min");
  EXPECT_EQ(age_text(std::chrono::hours(47)), "47 h");
  EXPECT_EQ(age_text(std::chrono::hours(48)), "2 d");
}

TEST(ProgressLine, ShowsShareRateAndTimeLeft) {
  EXPECT_THAT(progress_line(std::uint64_t{1} << 30, std::uint64_t{4} << 30, std::chrono::seconds(2), 120),
              AllOf(StartsWith("[#######......................."), HasSubstr(" 25 %  1.0 GiB of 4.0 GiB"),
                    HasSubstr("512.0 MiB/s  6 s left")));
}

TEST(ProgressLine, DropsTheBarWhereTheTerminalIsNarrow) {
  EXPECT_THAT(progress_line(1, 4, std::chrono::seconds(2), 30), Not(HasSubstr("[")));
}

TEST(ProgressLine, IsNeverWiderThanTheTerminal) {
  EXPECT_LE(progress_line(1, 4, std::chrono::seconds(2), 10).size(), 10u);
}

}  // namespace
}  // namespace cairn::cli
