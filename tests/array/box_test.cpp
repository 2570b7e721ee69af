// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <gmock/gmock.h>

#include "cairn/array/shape.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

TEST(Box, RefusesOffsetsAndExtentsOfDifferentRank) {
  EXPECT_THAT([] { return Box({0}, {1, 2}); }, Fails(Errc::invalid_argument, HasSubstr("offsets [0]")));
}

TEST(Box, RefusesEndsBeyond64Bits) {
  EXPECT_THAT([] { return Box({UINT64_MAX}, {1}); }, Fails(Errc::invalid_argument));
}

TEST(Box, KnowsWhetherItIsAllOfAnArray) {
  EXPECT_TRUE(Box::whole({2, 3}).is_whole({2, 3}));
  EXPECT_TRUE(Box().is_whole(Shape{}));
  EXPECT_FALSE(Box({0, 1}, {2, 3}).is_whole({2, 3}));
  EXPECT_FALSE(Box({0, 0}, {2, 2}).is_whole({2, 3}));
}

TEST(Box, KnowsWhetherItLiesInAnArray) {
  EXPECT_TRUE(Box({1, 1}, {1, 2}).is_within({2, 3}));
  EXPECT_FALSE(Box({1, 2}, {1, 2}).is_within({2, 3}));
  EXPECT_FALSE(Box({1}, {1}).is_within({2, 3}));
}

TEST(BoxContains, IsTrueOnlyForBoxesInside) {
  const Box outer({2, 2}, {4, 4});

  EXPECT_TRUE(outer.contains(outer));
  EXPECT_TRUE(outer.contains(Box({3, 2}, {1, 4})));
  EXPECT_FALSE(outer.contains(Box({1, 2}, {2, 2})));
  EXPECT_FALSE(outer.contains(Box({3, 3}, {4, 1})));
  EXPECT_FALSE(outer.contains(Box({3}, {1})));
}

TEST(Intersect, IsTheSharedPart) {
  EXPECT_EQ(intersect(Box({0, 2}, {4, 4}), Box({2, 0}, {4, 3})), Box({2, 2}, {2, 1}));
  EXPECT_EQ(intersect(Box(), Box()), Box());
}

TEST(Intersect, IsNothingForBoxesThatOnlyTouch) {
  EXPECT_EQ(intersect(Box({0}, {2}), Box({2}, {2})), std::nullopt);
  EXPECT_EQ(intersect(Box({0}, {2}), Box({0, 0}, {2, 2})), std::nullopt);
  EXPECT_EQ(intersect(Box({0}, {0}), Box({0}, {2})), std::nullopt);
}

TEST(Box, PrintsHalfOpenRanges) {
  EXPECT_EQ(to_string(Box({0, 3}, {2, 3})), "[0:2, 3:6]");
}

}  // namespace
}  // namespace cairn
