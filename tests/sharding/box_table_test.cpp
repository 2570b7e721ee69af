// SPDX-License-Identifier: Apache-2.0
#include "sharding/internal/box_table.hpp"

#include <gmock/gmock.h>

#include "sharding/slow_model.hpp"
#include "support/fails.hpp"

namespace cairn::sharding {
namespace {

using testing::Dice;
using testing::Fails;

Box random_box(Dice& dice, const Shape& shape) {
  Shape offsets = shape;
  Shape extents = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    offsets[d] = dice.below(shape[d] + 1);
    extents[d] = dice.below(shape[d] - offsets[d] + 1);
  }
  return {offsets, extents};
}

TEST(BoxTable, FindsWhatComparingWithAllFinds) {
  Dice dice(7);
  for (int i = 0; i < 300; ++i) {
    const Shape shape = testing::random_shape(dice, 5000);
    std::vector<Box> boxes;
    for (std::size_t count = dice.below(400); boxes.size() < count;) {
      boxes.push_back(random_box(dice, shape));
    }
    const BoxTable table(boxes);
    EXPECT_EQ(table.size(), boxes.size());
    for (int query = 0; query < 5; ++query) {
      const Box wanted = random_box(dice, shape);
      std::map<std::size_t, Box> all;
      for (std::size_t number = 0; number < boxes.size(); ++number) {
        if (const auto shared = intersect(boxes[number], wanted)) {
          all.emplace(number, *shared);
        }
      }

      std::map<std::size_t, Box> found;
      for (const BoxOverlap& overlap : table.overlaps(wanted)) {
        ASSERT_TRUE(found.emplace(overlap.number, overlap.shared).second);
      }

      ASSERT_EQ(found, all) << wanted;
    }
  }
}

TEST(BoxTable, AnswersInTheOrderOfOffsets) {
  const std::vector<Box> boxes = {Box({4}, {2}), Box({0}, {2}), Box({2}, {2})};

  const std::vector<BoxOverlap> found = BoxTable(boxes).overlaps(Box({1}, {4}));

  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].number, 1u);
  EXPECT_EQ(found[0].shared, Box({1}, {1}));
  EXPECT_EQ(found[2].number, 0u);
}

TEST(BoxTable, OfNothingFindsNothing) {
  EXPECT_TRUE(BoxTable({}).overlaps(Box({0}, {1})).empty());
}

TEST(BoxTable, RefusesBoxesOfOtherRank) {
  EXPECT_THAT([] { return BoxTable(std::vector<Box>{Box(), Box({0}, {1})}); }, Fails(Errc::invalid_argument));
  EXPECT_THAT([] { return BoxTable(std::vector<Box>{Box({0}, {1})}).overlaps(Box()); },
              Fails(Errc::invalid_argument));
}

}  // namespace
}  // namespace cairn::sharding
