// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/array_view.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

static_assert(std::is_convertible_v<std::vector<float>&, ArrayView>);
static_assert(std::is_convertible_v<std::span<const float>, ArrayView>);
static_assert(std::is_convertible_v<std::array<int, 3>&, MutableArrayView>);
static_assert(std::is_convertible_v<const MutableArrayView&, ArrayView>);
static_assert(!std::is_constructible_v<ArrayView, std::vector<float>>, "a view of a temporary would dangle");
static_assert(!std::is_constructible_v<ArrayView, const std::vector<float>>);
static_assert(!std::is_constructible_v<ArrayView, std::vector<bool>&>, "its elements are no bytes");
static_assert(!std::is_constructible_v<ArrayView, std::string&>, "text is no array of numbers");
static_assert(!std::is_constructible_v<MutableArrayView, const std::vector<float>&>);
static_assert(!std::is_constructible_v<MutableArrayView, std::span<const float>>);
static_assert(!std::is_convertible_v<ArrayView, MutableArrayView>);

TEST(ArrayView, OfAVectorHasItsElements) {
  std::vector<float> values = {1, 2, 3};

  const ArrayView view = values;

  EXPECT_EQ(view.shape(), Shape{3});
  EXPECT_EQ(view.dtype(), DType::float32);
  EXPECT_EQ(view.byte_count(), 12u);
  EXPECT_EQ(view.as<float>().data(), values.data());
}

TEST(ArrayView, MadeByDefaultHasNoElements) {
  EXPECT_EQ(ArrayView().element_count(), 0u);
  EXPECT_TRUE(ArrayView().is_contiguous());
}

TEST(ArrayView, RefusesNullWithElements) {
  EXPECT_THAT([] { return ArrayView(nullptr, {2}, DType::int8); },
              Fails(Errc::invalid_argument, HasSubstr("null")));
  EXPECT_EQ(ArrayView(nullptr, {0}, DType::int8).element_count(), 0u);
}

TEST(ArrayView, RefusesSizesThatOverflow) {
  const char byte = 0;

  EXPECT_THAT(
      [&] {
        return ArrayView(&byte, {std::uint64_t{1} << 62, 8}, DType::int8);
      },
      Fails(Errc::invalid_argument));
}

TEST(ArrayView, RefusesAnUnknownType) {
  const char byte = 0;

  EXPECT_THAT([&] { return ArrayView(&byte, {1}, DType{99}); }, Fails(Errc::invalid_argument));
}

TEST(ArrayView, RefusesStridesOfAnotherRank) {
  const std::array<int, 4> values{};

  EXPECT_THAT(
      [&] {
        return ArrayView(values.data(), {2, 2}, DType::int32, {4});
      },
      Fails(Errc::invalid_argument, HasSubstr("strides [4]")));
}

TEST(ArrayView, RefusesStridesThatLeaveTheAddressSpace) {
  const std::array<int, 4> values{};
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();

  EXPECT_THAT([&] { return ArrayView(values.data(), {3}, DType::int32, {kMin}); },
              Fails(Errc::invalid_argument));
  EXPECT_THAT([&] { return ArrayView(values.data(), {2}, DType::int32, {kMin}); },
              Fails(Errc::invalid_argument));
  EXPECT_THAT(
      [&] {
        return ArrayView(values.data(), {2, 2}, DType::int32, {kMin / 2, kMin / 2});
      },
      Fails(Errc::invalid_argument));
}

TEST(ArrayView, RefusesStridesThatCountElements) {
  const std::vector<double> memory(8);
  const auto viewing = [&](Shape shape, Strides strides) {
    return [&memory, shape, strides] { return ArrayView(memory.data(), shape, DType::float64, strides); };
  };

  EXPECT_THAT(viewing({2, 3}, {4, 1}),
              Fails(Errc::invalid_argument, HasSubstr("strides are in bytes; that of dimension 0 is 4")));
  EXPECT_THAT(viewing({3}, {-1}), Fails(Errc::invalid_argument, HasSubstr("strides_in_elements")));
  EXPECT_THAT(viewing({2}, {7}), Fails(Errc::invalid_argument, HasSubstr("F64 has 8")));
  EXPECT_EQ(viewing({2, 1}, {8, 1})().element_count(), 2u) << "nobody steps over the second";
  EXPECT_EQ(viewing({3}, {0})().element_count(), 3u) << "one element for all";
  EXPECT_EQ(viewing({0, 3}, {4, 1})().element_count(), 0u);
}

TEST(ArrayView, TakesStridesInElementsAsBytes) {
  const std::vector<double> memory = {1, 2, 3, 99, 4, 5, 6, 99};

  const ArrayView view(memory.data(), {2, 3}, DType::float64, strides_in_elements(DType::float64, {4, 1}));

  EXPECT_TRUE(
      is_identical(view, ArrayView(std::vector<double>{1, 2, 3, 4, 5, 6}.data(), {2, 3}, DType::float64)));
}

TEST(ArrayView, RefusesStridesForPackedTypes) {
  const std::array<std::uint8_t, 2> bytes{};

  EXPECT_THAT(
      [&] {
        return ArrayView(bytes.data(), {2, 2}, DType::float4, {1, 1});
      },
      Fails(Errc::invalid_argument, HasSubstr("F4")));
}

TEST(ArrayViewContiguity, IgnoresStridesThatAreNeverStepped) {
  const std::array<int, 6> values{};

  EXPECT_TRUE(ArrayView(values.data(), {1, 6}, DType::int32, {999, 4}).is_contiguous());
  EXPECT_TRUE(ArrayView(values.data(), {0, 6}, DType::int32, {7, 7}).is_contiguous());
  EXPECT_FALSE(ArrayView(values.data(), {3, 2}, DType::int32, {4, 12}).is_contiguous());
  EXPECT_FALSE(ArrayView(values.data(), {6}, DType::int32, {0}).is_contiguous());
}

TEST(ArrayViewAs, RefusesAnotherType) {
  const std::vector<float> values(3);

  EXPECT_THAT([&] { return ArrayView(values).as<double>(); },
              Fails(Errc::dtype_mismatch, HasSubstr("F32 was read as F64")));
}

TEST(ArrayViewAs, RefusesGaps) {
  const std::vector<int> values(6);

  EXPECT_THAT([&] { return ArrayView(values.data(), {3}, DType::int32, {8}).as<int>(); },
              Fails(Errc::invalid_argument, HasSubstr("not contiguous")));
}

TEST(ArrayViewAs, RefusesMisalignedMemory) {
  alignas(8) const std::array<char, 16> bytes{};

  EXPECT_THAT([&] { return ArrayView(bytes.data() + 1, {2}, DType::int32).as<int>(); },
              Fails(Errc::invalid_argument, HasSubstr("aligned")));
}

TEST(ArrayViewAs, RefusesMemoryOfAnotherDevice) {
  const std::array<int, 2> values{};
  const Device device{Device::Kind::cuda, 0};

  EXPECT_THAT([&] { return ArrayView(values.data(), {2}, DType::int32, device).as<int>(); },
              Fails(Errc::invalid_argument, HasSubstr("not the host's")));
}

TEST(ArrayViewPart, PointsAtTheFirstElementOfTheBox) {
  const std::array<int, 6> values = {0, 1, 2, 3, 4, 5};
  const ArrayView view(values.data(), {2, 3}, DType::int32);

  EXPECT_THAT(view.part(Box({1, 1}, {1, 2})).as<int>(), ElementsAre(4, 5));
  EXPECT_FALSE(view.part(Box({0, 1}, {2, 2})).is_contiguous());
  EXPECT_EQ(view.part(Box({2, 3}, {0, 0})).byte_count(), 0u);
}

TEST(ArrayViewPart, RefusesBoxesOutsideTheArray) {
  const std::array<int, 6> values{};
  const ArrayView view(values.data(), {2, 3}, DType::int32);

  EXPECT_THAT(
      [&] {
        return view.part(Box({1, 2}, {1, 2}));
      },
      Fails(Errc::invalid_argument,
            HasSubstr("part [1:2, 2:4] is not within an array of shape [2, 3]: axis 1 "
                      "ends at 3, the box at 4")));
  EXPECT_THAT([&] { return view.part(Box({0}, {1})); },
              Fails(Errc::invalid_argument, HasSubstr("the box has rank 1, the array 2")));
}

TEST(ArrayViewPart, OfAPackedArrayIsAllOfIt) {
  const std::array<std::uint8_t, 2> bytes{};
  const ArrayView view(bytes.data(), {4}, DType::float4);

  EXPECT_EQ(view.part(Box::whole({4})).byte_count(), 2u);
  EXPECT_THAT([&] { return view.part(Box({0}, {2})); }, Fails(Errc::invalid_argument, HasSubstr("F4")));
}

TEST(ArrayViewTransposed, ReversesShapeAndStrides) {
  const std::array<int, 6> values{};
  const ArrayView transposed = ArrayView(values.data(), {2, 3}, DType::int32).transposed();

  EXPECT_EQ(transposed.shape(), (Shape{3, 2}));
  EXPECT_EQ(transposed.strides(), (Strides{4, 12}));
  EXPECT_TRUE(transposed.transposed().is_contiguous());
}

TEST(MutableArrayView, WritesWhereItPoints) {
  std::vector<int> values = {1, 2, 3, 4};
  const MutableArrayView view = values;

  view.part(Box({1}, {2})).as<int>()[1] = 9;

  EXPECT_THAT(values, ElementsAre(1, 2, 9, 4));
}

TEST(IsIdentical, ComparesBitsWhateverTheStrides) {
  const std::array<int, 6> rows = {0, 1, 2, 3, 4, 5};
  const std::array<int, 6> columns = {0, 3, 1, 4, 2, 5};
  const ArrayView view(rows.data(), {2, 3}, DType::int32);

  EXPECT_TRUE(is_identical(view, ArrayView(columns.data(), {3, 2}, DType::int32).transposed()));
  EXPECT_FALSE(is_identical(view, ArrayView(columns.data(), {2, 3}, DType::int32)));
}

TEST(IsIdentical, SeesShapeTypeAndSignOfZero) {
  const std::array<float, 2> zeros = {0, 0};
  const std::array<float, 2> negative = {0, -0.0F};

  EXPECT_FALSE(is_identical(zeros, negative));
  EXPECT_FALSE(is_identical(zeros, ArrayView(zeros.data(), {1, 2}, DType::float32)));
  EXPECT_FALSE(is_identical(zeros, ArrayView(zeros.data(), {2}, DType::int32)));
}

}  // namespace
}  // namespace cairn
