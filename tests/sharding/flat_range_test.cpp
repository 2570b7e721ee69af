// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/flat_range.hpp"

#include <gmock/gmock.h>

#include "sharding/slow_model.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Dice;
using testing::Element;
using testing::Fails;

TEST(BoxesOfFlatRange, AreStartMiddleAndEnd) {
  const std::vector<FlatPiece> pieces = boxes_of_flat_range(Box({10, 20}, {4, 5}), 3, 17);

  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].box, Box({10, 23}, {1, 2}));
  EXPECT_EQ(pieces[1].box, Box({11, 20}, {2, 5}));
  EXPECT_EQ(pieces[2].box, Box({13, 20}, {1, 2}));
  EXPECT_EQ(pieces[1].first, 2u);
  EXPECT_EQ(pieces[2].first, 12u);
}

TEST(BoxesOfFlatRange, OfAScalarIsTheScalar) {
  EXPECT_EQ(boxes_of_flat_range(Box(), 0, 1).at(0).box, Box());
  EXPECT_TRUE(boxes_of_flat_range(Box(), 0, 0).empty());
}

TEST(BoxesOfFlatRange, RefusesWhatIsNotInTheBox) {
  EXPECT_THAT([] { return boxes_of_flat_range(Box({0}, {3}), 1, 4); }, Fails(Errc::invalid_argument));
  EXPECT_THAT([] { return boxes_of_flat_range(Box({0}, {3}), 2, 1); }, Fails(Errc::invalid_argument));
  EXPECT_THAT([] { return boxes_of_flat_range(Box({0}, {0}), 0, 1); }, Fails(Errc::invalid_argument));
}

TEST(BoxesOfFlatRange, HaveTheElementsOfTheRangeInOrder) {
  Dice dice(1);
  for (int i = 0; i < 2000; ++i) {
    const Shape extents = testing::random_shape(dice, 200);
    const Box box(Shape(extents.size(), dice.below(3)), extents);
    const std::vector<Element> all = testing::elements_of(box);
    const std::size_t begin = dice.below(all.size() + 1);
    const std::size_t end = begin + dice.below(all.size() - begin + 1);

    const std::vector<FlatPiece> pieces = boxes_of_flat_range(box, begin, end);

    std::vector<Element> found;
    for (const FlatPiece& piece : pieces) {
      ASSERT_EQ(piece.first, found.size());
      const std::vector<Element> elements = testing::elements_of(piece.box);
      found.insert(found.end(), elements.begin(), elements.end());
    }
    ASSERT_EQ(found, std::vector<Element>(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                          all.begin() + static_cast<std::ptrdiff_t>(end)));
    ASSERT_LE(pieces.size(), std::max<std::size_t>(2 * box.rank(), 2) - 1);
  }
}

}  // namespace
}  // namespace cairn
