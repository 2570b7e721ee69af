// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/box_cover.hpp"

#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

TEST(CheckCover, TakesAGridInAnyOrder) {
  const std::vector<Box> boxes = {{{2, 3}, {2, 2}}, {{0, 0}, {2, 3}}, {{2, 0}, {2, 3}}, {{0, 3}, {2, 2}}};

  EXPECT_NO_THROW(check_cover("w", {4, 5}, boxes));
}

TEST(CheckCover, TakesBoxesThatFormNoGrid) {
  // A pinwheel: no straight cut separates it.
  const std::vector<Box> boxes = {
      {{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}};

  EXPECT_NO_THROW(check_cover("w", {3, 3}, boxes));
}

TEST(CheckCover, TakesAScalar) {
  EXPECT_NO_THROW(check_cover("w", {}, std::vector<Box>{Box({}, {})}));
}

TEST(CheckCover, NeedsNothingForAnEmptyArray) {
  EXPECT_NO_THROW(check_cover("w", {0, 3}, {}));
}

TEST(CheckCover, IgnoresEmptyBoxes) {
  const std::vector<Box> boxes = {{{2}, {0}}, {{0}, {4}}, {{4}, {0}}};

  EXPECT_NO_THROW(check_cover("w", {4}, boxes));
}

TEST(CheckCover, NamesBothBoxesThatOverlap) {
  const std::vector<Box> boxes = {{{0}, {3}}, {{2}, {2}}};

  EXPECT_THAT(
      [&] { check_cover("w", {4}, boxes); },
      Fails(Errc::overlapping_shards, AllOf(HasSubstr("'w'"), HasSubstr("[0:3]"), HasSubstr("[2:4]"))));
}

TEST(CheckCover, RefusesTheSameBoxTwice) {
  const std::vector<Box> boxes = {{{0}, {4}}, {{0}, {4}}};

  EXPECT_THAT([&] { check_cover("w", {4}, boxes); }, Fails(Errc::overlapping_shards));
}

TEST(CheckCover, RefusesTwoScalars) {
  const std::vector<Box> boxes = {Box({}, {}), Box({}, {})};

  EXPECT_THAT([&] { check_cover("w", {}, boxes); }, Fails(Errc::overlapping_shards));
}

TEST(CheckCover, RefusesAHole) {
  const std::vector<Box> boxes = {{{0}, {2}}, {{3}, {1}}};

  EXPECT_THAT([&] { check_cover("w", {4}, boxes); }, Fails(Errc::incomplete_shards, HasSubstr("3 of the 4")));
}

TEST(CheckCover, IsNotFooledByAnOverlapAsLargeAsTheHole) {
  const std::vector<Box> boxes = {{{0}, {2}}, {{1}, {2}}};

  EXPECT_THAT([&] { check_cover("w", {4}, boxes); }, Fails(Errc::overlapping_shards));
}

TEST(CheckCover, RefusesNoBoxes) {
  EXPECT_THAT([] { check_cover("w", {}, {}); }, Fails(Errc::incomplete_shards, HasSubstr("0 of the 1")));
}

TEST(CheckCover, RefusesABoxBeyondTheArray) {
  const std::vector<Box> boxes = {{{1}, {4}}};

  EXPECT_THAT([&] { check_cover("w", {4}, boxes); }, Fails(Errc::malformed_metadata, HasSubstr("beyond")));
}

TEST(CheckCover, RefusesAShapeOfTooManyElements) {
  const Shape shape(2, std::numeric_limits<std::uint64_t>::max());

  EXPECT_THAT([&] { check_cover("w", shape, {}); },
              Fails(Errc::malformed_metadata, HasSubstr("too many elements")));
}

TEST(CheckCover, LooksAtFewPairsOfManyRows) {
  constexpr std::uint64_t kRows = 200'000;  // All pairs of them would take minutes.
  std::vector<Box> boxes;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    boxes.push_back({{kRows - 1 - row, 0}, {1, 8}});
  }

  EXPECT_NO_THROW(check_cover("w", {kRows, 8}, boxes));
}

}  // namespace
}  // namespace cairn::formats
