// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include <gmock/gmock.h>

#include "cairn/training/step_directory.hpp"

#include "support/dice.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(StepFormat, NamesStepsByTheirNumber) {
  EXPECT_EQ(StepFormat().name(0), "0");
  EXPECT_EQ(StepFormat().name(kMost), "18446744073709551615");
  EXPECT_EQ(StepFormat("step_").name(7), "step_7");
  EXPECT_EQ(StepFormat("step_", 8).name(7), "step_00000007");
  EXPECT_EQ(StepFormat("", 20).name(kMost), "18446744073709551615");
}

TEST(StepFormat, ReadsWhatItWrites) {
  testing::Dice dice(1);
  for (const StepFormat& format :
       {StepFormat(), StepFormat("step_"), StepFormat("v2-", 20), StepFormat("9")}) {
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t step = dice.next() >> dice.below(64);
      EXPECT_EQ(format.parse(format.name(step)), step);
    }
  }
}

TEST(StepFormat, TakesNothingElseForAStep) {
  for (const char* name : {"", "00", "01", "-1", "+1", " 1", "1 ", "1.g2", "0x1", "1e3",
                           "18446744073709551616", "99999999999999999999", "step_1", ".1", "latest"}) {
    EXPECT_EQ(StepFormat().parse(name), std::nullopt) << name;
  }
  for (const char* name :
       {"step_", "step_1", "step_0001", "step_00001x", "00001", "Step_00001", "step_000001"}) {
    EXPECT_EQ(StepFormat("step_", 5).parse(name), std::nullopt) << name;
  }
  EXPECT_EQ(StepFormat("step_", 5).parse("step_00001"), 1u);
}

TEST(StepFormat, RefusesAStepAboveItsWidthByNumberAndWidth) {
  EXPECT_EQ(StepFormat("s", 3).name(999), "s999");
  EXPECT_THAT([] { static_cast<void>(StepFormat("s", 3).name(1000)); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("step 1000"), HasSubstr("3 digits"))));
}

TEST(StepFormat, RefusesPrefixesThatNamesCannotHave) {
  for (const std::string& prefix : {std::string("a/b"), std::string("a\0b", 3), std::string(".tmp-"),
                                    std::string("run.g"), std::string(190, 'x')}) {
    EXPECT_THAT([&] { StepFormat format(prefix); }, Fails(Errc::invalid_argument, HasSubstr("prefix")));
  }
  EXPECT_THAT([] { StepFormat format("", 21); },
              Fails(Errc::invalid_argument, HasSubstr("at most 20 digits, not 21")));
}

}  // namespace
}  // namespace cairn
