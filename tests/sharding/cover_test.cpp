// SPDX-License-Identifier: Apache-2.0
#include "array/internal/cover.hpp"

#include <gmock/gmock.h>

#include "cairn/base/some_ranks.hpp"

#include "sharding/slow_model.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Dice;
using testing::Fails;
using ::testing::HasSubstr;

BoxOrigin held_by(const std::vector<std::vector<std::size_t>>& ranks) {
  return [ranks](std::size_t number) {
    SomeRanks holders;
    for (const std::size_t rank : ranks[number]) {
      holders.add(rank);
    }
    return " of " + to_string(holders);
  };
}

TEST(CheckCover, NamesBoxesAndRanksThatOverlap) {
  const std::vector<Box> boxes = {Box({0, 0}, {2, 4}), Box({2, 0}, {2, 4}), Box({1, 3}, {1, 1})};

  EXPECT_THAT(
      [&] {
        check_cover("w", Box::whole({4, 4}), boxes, held_by({{4}, {7}, {9, 11}}));
      },
      Fails(Errc::overlapping_shards,
            HasSubstr("'w': boxes [0:2, 0:4] of rank 4 and [1:2, 3:4] of ranks 9 and 11 "
                      "overlap in [1:2, 3:4]")));
}

TEST(CheckCover, NamesABoxThatIsMissing) {
  const std::vector<Box> boxes = {Box({0, 0}, {2, 4}), Box({2, 0}, {2, 3})};

  EXPECT_THAT(
      [&] {
        check_cover("w", Box::whole({4, 4}), boxes);
      },
      Fails(Errc::incomplete_shards,
            HasSubstr("'w': 14 of the 16 elements of [0:4, 0:4] are there; [2:4, 3:4] is not; "
                      "next to it: [0:2, 0:4], [2:4, 0:3]")));
  EXPECT_THAT(
      [&] {
        check_cover("w", Box::whole({4, 4}), {});
      },
      Fails(Errc::incomplete_shards,
            HasSubstr("0 of the 16 elements of [0:4, 0:4] are there; [0:4, 0:4] is not")));
}

TEST(CheckCover, NamesTheRanksNextToWhatIsMissing) {
  std::vector<Box> boxes;
  for (std::uint64_t row = 0; row < 5; ++row) {
    boxes.emplace_back(Shape{2 * row, 0}, Shape{2, 3});
    boxes.emplace_back(Shape{2 * row, 3}, Shape{2, 3});
  }
  boxes.erase(boxes.begin() + 4);  // [4:6, 0:3].

  EXPECT_THAT(
      [&] {
        check_cover("w", Box::whole({10, 6}), boxes, [](std::size_t number) {
          SomeRanks ranks;
          ranks.add(number);
          ranks.add(100 + number);
          return " of " + to_string(ranks);
        });
      },
      Fails(Errc::incomplete_shards,
            HasSubstr("[4:6, 0:3] is not; next to it: [2:4, 0:3] of ranks 2 and 102, [4:6, 3:6] of ranks 4 "
                      "and 104, [6:8, 0:3] of ranks 5 and 105")));
}

TEST(CheckCover, NamesFewOfManyNeighbours) {
  std::vector<Box> boxes;
  for (std::uint64_t column = 0; column < 10; ++column) {
    boxes.emplace_back(Shape{0, column}, Shape{1, 1});
  }

  EXPECT_THAT(
      [&] {
        check_cover("w", Box::whole({3, 10}), boxes);
      },
      Fails(Errc::incomplete_shards, HasSubstr("[1:3, 0:10] is not; next to it: [0:1, 0:1], [0:1, 1:2], "
                                               "[0:1, 2:3], [0:1, 3:4] and 6 more")));
}

TEST(CheckCover, LooksOnlyAtTheRegion) {
  const std::vector<Box> boxes = {Box({0}, {4}), Box({2}, {4}), Box({8}, {2})};

  EXPECT_NO_THROW(check_cover("w", Box({4}, {2}), boxes));
  EXPECT_NO_THROW(check_cover("w", Box({0}, {2}), boxes));
  EXPECT_THAT([&] { check_cover("w", Box({1}, {2}), boxes); }, Fails(Errc::overlapping_shards));
  EXPECT_THAT([&] { check_cover("w", Box({4}, {5}), boxes); },
              Fails(Errc::incomplete_shards, HasSubstr("[6:8]")));
}

TEST(CheckCover, OfAScalarIsOneBox) {
  EXPECT_NO_THROW(check_cover("s", Box(), std::vector<Box>(1)));
  EXPECT_THAT([] { check_cover("s", Box(), std::vector<Box>(2)); }, Fails(Errc::overlapping_shards));
  EXPECT_THAT([] { check_cover("s", Box(), {}); }, Fails(Errc::incomplete_shards));
}

TEST(CheckCover, OfNothingNeedsNothing) {
  EXPECT_NO_THROW(check_cover("z", Box::whole({0, 3}), {}));
  EXPECT_NO_THROW(check_cover("z", Box::whole({0, 3}), std::vector<Box>(2, Box({0, 0}, {0, 3}))));
}

TEST(CheckCover, RefusesWhatCannotBeCompared) {
  EXPECT_THAT([] { check_cover("w", Box::whole({2}), std::vector<Box>(1)); }, Fails(Errc::invalid_argument));
}

/// Cuts a box at random until there are `count` of them: no grid, as a rule.
std::vector<Box> random_tiling(Dice& dice, const Box& box, std::size_t count) {
  std::vector<Box> tiles = {box};
  for (std::size_t i = 0; i < 4 * count && tiles.size() < count; ++i) {
    Box& tile = tiles[dice.below(tiles.size())];
    const std::size_t d = box.rank() == 0 ? 0 : dice.below(box.rank());
    if (box.rank() == 0 || tile.extents()[d] < 2) {
      continue;
    }
    Shape offsets = tile.offsets();
    Shape extents = tile.extents();
    const std::uint64_t cut = 1 + dice.below(extents[d] - 1);
    extents[d] = cut;
    const Box lower(offsets, extents);
    offsets[d] += cut;
    extents[d] = tile.extents()[d] - cut;
    tile = lower;
    tiles.emplace_back(offsets, extents);
  }
  return tiles;
}

TEST(CheckCover, AgreesWithCountingTheElements) {
  Dice dice(6);
  int sound = 0;
  for (int i = 0; i < 1500; ++i) {
    const Box whole = Box::whole(testing::random_shape(dice, 200));
    std::vector<Box> boxes = random_tiling(dice, whole, 1 + dice.below(20));
    if (!boxes.empty() && dice.one_in(3)) {
      boxes.erase(boxes.begin() + static_cast<std::ptrdiff_t>(dice.below(boxes.size())));
    }
    if (!boxes.empty() && dice.one_in(3)) {
      boxes.push_back(boxes[dice.below(boxes.size())]);
    }
    const Box region = dice.one_in(2) || boxes.empty() ? whole : boxes[dice.below(boxes.size())];

    std::optional<std::error_code> verdict;
    try {
      check_cover("w", region, boxes);
    } catch (const Error& error) {
      verdict = error.code();
    }

    const auto counts = testing::count_elements(boxes);
    bool overlaps = false;
    bool is_complete = true;
    for (const testing::Element& element : testing::elements_of(region)) {
      const auto found = counts.find(element);
      overlaps = overlaps || (found != counts.end() && found->second > 1);
      is_complete = is_complete && found != counts.end();
    }
    const auto wanted = overlaps       ? std::optional(make_error_code(Errc::overlapping_shards))
                        : !is_complete ? std::optional(make_error_code(Errc::incomplete_shards))
                                       : std::nullopt;
    ASSERT_EQ(verdict, wanted) << region << " " << ::testing::PrintToString(boxes);
    sound += verdict ? 0 : 1;
  }
  EXPECT_GT(sound, 300);
}

/// A grid of 22 x 22 x 21 boxes that are not all equal.
std::vector<Box> large_grid() {
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < 22; ++i) {
    for (std::uint64_t j = 0; j < 22; ++j) {
      for (std::uint64_t k = 0; k < 21; ++k) {
        boxes.emplace_back(Shape{i * 10, j * 10, k * 10}, Shape{10, j == 21 ? 3UL : 10UL, 10});
      }
    }
  }
  return boxes;
}

TEST(CheckCover, IsNotFooledByAnOverlapAsLargeAsTheHole) {
  const std::vector<Box> boxes = {Box({0}, {2}), Box({1}, {2})};

  EXPECT_THAT([&] { check_cover("w", Box::whole({4}), boxes); }, Fails(Errc::overlapping_shards));
}

TEST(CheckCover, RefusesARegionOfTooManyElements) {
  const Box whole = Box::whole({UINT64_MAX, UINT64_MAX});

  EXPECT_THAT([&] { check_cover("w", whole, {}); },
              Fails(Errc::invalid_argument, HasSubstr("too many elements")));
}

TEST(CheckCover, LooksAtFewPairsOfManyRows) {
  constexpr std::uint64_t kRows = 200'000;  // All pairs of them would take minutes.
  std::vector<Box> boxes;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    boxes.push_back({{kRows - 1 - row, 0}, {1, 8}});
  }

  EXPECT_NO_THROW(check_cover("w", Box::whole({kRows, 8}), boxes));
}

// How long it takes is a figure of cairn_sharding_figures.
TEST(CheckCover, OfALargeGridFindsTheBoxThatIsMissing) {
  std::vector<Box> boxes = large_grid();
  EXPECT_NO_THROW(check_cover("w", Box::whole({220, 213, 210}), boxes));

  boxes.erase(boxes.begin() + 5000);

  EXPECT_THAT([&] { check_cover("w", Box::whole({220, 213, 210}), boxes); }, Fails(Errc::incomplete_shards));
}

}  // namespace
}  // namespace cairn
