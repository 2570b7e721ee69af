// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/tree_values.hpp"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gmock/gmock.h>

#include "support/fails.hpp"
#include "support/other_arithmetic.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

constexpr std::int64_t kNoDouble = (std::int64_t{1} << 53) + 1;
constexpr std::int32_t kNoFloat = (1 << 24) + 1;

TEST(TreeAsFloat, TakesIntegersThatItIsExactly) {
  EXPECT_EQ(Tree(-7).as<double>(), -7.0);
  EXPECT_EQ(Tree(0).as<float>(), 0.0F);
  EXPECT_EQ(Tree(kNoDouble - 1).as<double>(), 9007199254740992.0);
  EXPECT_EQ(Tree(std::numeric_limits<std::int64_t>::min()).as<float>(), -9223372036854775808.0F);
  EXPECT_EQ(Tree(std::uint64_t{1} << 63).as<double>(), 9223372036854775808.0);
}

TEST(TreeAsFloat, RefusesIntegersThatItWouldRoundAndNamesThePath) {
  const Tree tree = {{"a", {{"n", kNoDouble}}}};

  EXPECT_THAT([&] { static_cast<void>(tree.get<double>("a/n")); },
              Fails(Errc::unsafe_cast, HasSubstr("'a/n' is 9007199254740993, which a double cannot hold")));
  EXPECT_THAT([] { static_cast<void>(Tree(kNoFloat).as<float>()); },
              Fails(Errc::unsafe_cast, HasSubstr("the node is 16777217, which a float cannot hold")));
  EXPECT_THAT([] { static_cast<void>(Tree(std::numeric_limits<std::uint64_t>::max()).as<double>()); },
              Fails(Errc::unsafe_cast));
}

TEST(TreeAsFloat, RoundsIntegersOnceWhenNarrowingIsAllowed) {
  EXPECT_EQ(Tree(kNoFloat).as<float>({}, Narrowing::allowed), 16777216.0F);
  // By way of double this would be a tie, and go to the even float below.
  constexpr std::int64_t kAboveTie = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  EXPECT_EQ(Tree(kAboveTie).as<float>({}, Narrowing::allowed), std::ldexp(1.0F, 60) + std::ldexp(1.0F, 37));
}

TEST(TreeAsFloat, BecomesInfiniteBeyondItsRangeWhenNarrowingIsAllowed) {
  EXPECT_EQ(Tree(-1e300).as<float>({}, Narrowing::allowed), -std::numeric_limits<float>::infinity());
}

TEST(TreeAsFloat, RoundsToNearestHoweverTheThreadComputes) {
  const Tree tree = {{"x", 1 + 1e-9}, {"y", 1 - 1e-9}, {"n", kNoFloat}};
  for (const int rounding : testing::OtherArithmetic::kRoundings) {
    const testing::OtherArithmetic arithmetic(rounding);

    EXPECT_EQ(tree.get<float>("x"), 1.0F) << rounding;
    EXPECT_EQ(tree.get<float>("y"), 1.0F) << rounding;
    EXPECT_EQ(tree.get<float>("n", Narrowing::allowed), 16777216.0F) << rounding;
  }
}

TEST(TreeAsFloat, KeepsSubnormalNumbersWhereTheThreadTakesThemForZero) {
  std::uint32_t narrowed = 0;
  std::uint64_t widened = 0;
  {
    const testing::OtherArithmetic arithmetic(FE_TONEAREST);
    narrowed = std::bit_cast<std::uint32_t>(Tree(0x1p-149).as<float>());
    widened = std::bit_cast<std::uint64_t>(Tree(std::bit_cast<float>(1u)).as<double>());
  }

  EXPECT_EQ(narrowed, 1u);
  EXPECT_EQ(widened, std::bit_cast<std::uint64_t>(0x1p-149));
}

TEST(TreeAsFloat, RefusesBooleansAndStrings) {
  EXPECT_THAT([] { static_cast<void>(Tree(true).as<double>("flag", Narrowing::allowed)); },
              Fails(Errc::type_mismatch, HasSubstr("'flag' is of kind boolean, not floating")));
  EXPECT_THAT([] { static_cast<void>(Tree("1").as<double>()); }, Fails(Errc::type_mismatch));
}

TEST(TreeAsBool, TakesAnyByteButZeroOfAnArrayForTrue) {
  const std::uint8_t byte = 2;
  const Tree tree = Array::borrow(ArrayView(&byte, {}, DType::boolean));

  const bool flag = tree.as<bool>();

  EXPECT_EQ(static_cast<int>(flag), 1);
}

TEST(TreeAsInteger, RefusesFloatsUnlessNarrowingIsAllowed) {
  EXPECT_THAT([] { static_cast<void>(Tree(2.0).as<int>("x")); },
              Fails(Errc::unsafe_cast, HasSubstr("'x' is 2, a floating-point number and not an integer")));
  EXPECT_THAT([] { static_cast<void>(Tree(2.5).as<std::uint8_t>()); }, Fails(Errc::unsafe_cast));
}

TEST(TreeAsInteger, CutsOffFractionsAndSaturatesWhenNarrowingIsAllowed) {
  constexpr auto kAllowed = Narrowing::allowed;

  EXPECT_EQ(Tree(-2.9).as<int>({}, kAllowed), -2);
  EXPECT_EQ(Tree(1e30).as<std::int64_t>({}, kAllowed), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Tree(-1e30).as<std::int64_t>({}, kAllowed), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Tree(300).as<std::int8_t>({}, kAllowed), 127);
  EXPECT_EQ(Tree(-300).as<std::int8_t>({}, kAllowed), -128);
  EXPECT_EQ(Tree(-1).as<std::uint64_t>({}, kAllowed), 0U);
  EXPECT_EQ(Tree(std::numeric_limits<std::uint64_t>::max()).as<int>({}, kAllowed),
            std::numeric_limits<int>::max());
  EXPECT_EQ(Tree(std::nan("")).as<int>({}, kAllowed), 0);
}

TEST(TreeAsInteger, TakesTheEndsOfItsRange) {
  EXPECT_EQ(Tree(-128).as<std::int8_t>(), -128);
  EXPECT_EQ(Tree(255).as<std::uint8_t>(), 255);
  EXPECT_THAT([] { static_cast<void>(Tree(-129).as<std::int8_t>("n")); },
              Fails(Errc::unsafe_cast, HasSubstr("'n' is -129, which does not fit in a signed integer of 8 "
                                                 "bits (-128 to 127); Narrowing::allowed saturates it")));
  EXPECT_THAT([] { static_cast<void>(Tree(-1).as<std::uint64_t>()); },
              Fails(Errc::unsafe_cast, HasSubstr("in an unsigned integer of 64 bits (0 to "
                                                 "18446744073709551615)")));
}

}  // namespace
}  // namespace cairn
