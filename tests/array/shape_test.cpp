// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/shape.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>  // Whose ranges dimensions are not.
#include <gmock/gmock.h>

#include "cairn/array/format.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;

TEST(Shape, KeepsItsExtentsInOrder) {
  EXPECT_THAT((Shape{2, 3, 5}), ElementsAre(2u, 3u, 5u));
}

TEST(Shape, HoldsAsManyDimensionsAsAnArrayMayHave) {
  const std::vector<std::uint64_t> extents(kMaxRank, 1);

  EXPECT_EQ(Shape(extents).size(), kMaxRank);
}

TEST(Shape, RefusesMoreDimensions) {
  const std::vector<std::uint64_t> extents(kMaxRank + 1, 1);

  EXPECT_THAT([&] { Shape{std::span<const std::uint64_t>(extents)}; },
              Fails(Errc::invalid_argument, HasSubstr("65 dimensions")));
}

TEST(Shape, CopiesAreIndependentWithAndWithoutHeap) {
  for (const std::size_t rank : {3u, 9u}) {
    Shape original(rank, 4);
    Shape copy = original;
    copy[rank - 1] = 7;
    EXPECT_EQ(original, Shape(rank, 4)) << rank;
    original = copy;
    EXPECT_EQ(original, copy) << rank;
  }
}

TEST(Shape, IsEmptyAfterAMove) {
  for (const std::size_t rank : {3u, 9u}) {
    Shape original(rank, 4);
    const Shape moved = std::move(original);
    EXPECT_EQ(moved, Shape(rank, 4)) << rank;
    EXPECT_TRUE(original.empty()) << rank;  // NOLINT(bugprone-use-after-move): the state is documented.
  }
}

TEST(Shape, DiffersWhenOnlyTheRankDiffers) {
  EXPECT_NE((Shape{2, 1}), (Shape{2}));
  EXPECT_NE(Shape{}, (Shape{1}));
}

TEST(Shape, PrintsLikeAList) {
  EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
  EXPECT_EQ(fmt::format("{}", Shape{}), "[]");
  EXPECT_EQ(fmt::format("{}", Strides{-4, 8}), "[-4, 8]");
}

TEST(ElementCount, OfAScalarIsOne) {
  EXPECT_EQ(element_count(Shape{}), 1u);
}

TEST(ElementCount, IsNothingWhenTheProductOverflows) {
  EXPECT_EQ(element_count(Shape{kHuge, 2}), std::nullopt);
  EXPECT_EQ(element_count(Shape{kHuge, 1}), kHuge);
}

TEST(ElementCount, IsNotSavedFromOverflowByAZero) {
  EXPECT_EQ(element_count(Shape{kHuge, 4, 0}), std::nullopt);
  EXPECT_EQ(element_count(Shape{kHuge, 0}), 0u);
}

TEST(ByteCount, MultipliesByTheElement) {
  EXPECT_EQ(byte_count(DType::float32, Shape{2, 3}), 24u);
  EXPECT_EQ(byte_count(DType::float64, Shape{0, 3}), 0u);
}

TEST(ByteCount, IsNothingBeyond63Bits) {
  EXPECT_EQ(byte_count(DType::uint8, Shape{kHuge}), kHuge);
  EXPECT_EQ(byte_count(DType::uint16, Shape{kHuge}), std::nullopt);
  EXPECT_EQ(byte_count(DType::uint8, Shape{kHuge * 2}), std::nullopt);
}

TEST(ByteCount, OfPackedElementsNeedsWholeBytes) {
  EXPECT_EQ(byte_count(DType::float4, Shape{3, 2}), 3u);
  EXPECT_EQ(byte_count(DType::float4, Shape{3}), std::nullopt);
  EXPECT_EQ(byte_count(DType::float6_e2m3, Shape{4}), 3u);
  EXPECT_EQ(byte_count(DType::float6_e2m3, Shape{2}), std::nullopt);
  EXPECT_EQ(byte_count(DType::float4, Shape{kHuge}), std::nullopt);
}

TEST(ByteCount, OfAnUnknownTypeIsNothing) {
  EXPECT_EQ(byte_count(DType{}, Shape{2}), std::nullopt);
}

TEST(CheckedByteCount, NamesTheArrayItsTypeAndItsShape) {
  EXPECT_THAT(
      [] {
        return checked_byte_count("w", DType::float32, Shape{kHuge, 9});
      },
      Fails(Errc::malformed_metadata, AllOf(HasSubstr("'w'"), HasSubstr("F32"), HasSubstr(", 9]"))));
}

TEST(RowMajorStrides, StepByWhatLiesInside) {
  EXPECT_THAT(row_major_strides(DType::float32, Shape{2, 3, 5}), ElementsAre(60, 20, 4));
  EXPECT_THAT(row_major_strides(DType::int8, Shape{2, 0, 5}), ElementsAre(5, 5, 1));
}

TEST(RowMajorStrides, RefusesSizesThatOverflow) {
  EXPECT_THAT(
      [] {
        return row_major_strides(DType::int8, Shape{kHuge, 4, 0});
      },
      Fails(Errc::invalid_argument));
}

TEST(StridesInElements, AreThoseInBytes) {
  EXPECT_EQ(strides_in_elements(DType::float32, {6, -1, 0}), (Strides{24, -4, 0}));
  EXPECT_EQ(strides_in_elements(DType::complex128, {1}), Strides{16});
  EXPECT_EQ(strides_in_elements(DType::float32, {}), Strides{});
}

TEST(StridesInElements, AreRefusedWhereTheyDoNotFit) {
  EXPECT_THAT([] { return strides_in_elements(DType::float64, {std::int64_t{1} << 61}); },
              Fails(Errc::invalid_argument, ::testing::HasSubstr("do not fit in 63 bits")));
}

TEST(StridesInElements, AreRefusedForPackedTypes) {
  EXPECT_THAT([] { return strides_in_elements(DType::float4, {1}); },
              Fails(Errc::invalid_argument, ::testing::HasSubstr("share a byte")));
}

}  // namespace
}  // namespace cairn
