// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

// An array somewhere in a larger piece of memory, with strides of any sign and order.
struct Strided {
  std::vector<std::byte> memory;
  MutableArrayView view;
};

// Extents of 1 to 4, item sizes of 1 to 16, dimensions in random order, with gaps, some of them reversed.
Strided random_strided(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  constexpr std::array kTypes = {DType::uint8, DType::float16, DType::int32, DType::complex64,
                                 DType::complex128};
  const DType dtype = kTypes[static_cast<std::size_t>(pick(0, 4))];
  const auto rank = static_cast<std::size_t>(pick(0, 5));
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (pick(0, 1) == 1) {
    std::shuffle(order.begin(), order.end(), random);
  }
  Shape shape(rank, 0);
  Strides strides(rank, 0);
  std::int64_t stride = bits(dtype) / 8;
  std::int64_t first = 0;
  for (const std::size_t dimension : order) {
    shape[dimension] = static_cast<std::uint64_t>(pick(1, 4));
    const auto extent = static_cast<std::int64_t>(shape[dimension]);
    const bool is_reversed = pick(0, 4) == 0;
    strides[dimension] = is_reversed ? -stride : stride;
    first += is_reversed ? stride * (extent - 1) : 0;
    stride = stride * extent + (pick(0, 2) == 0 ? pick(0, 3) : 0);
  }
  Strided result;
  result.memory.resize(static_cast<std::size_t>(stride));
  for (std::byte& byte : result.memory) {
    byte = static_cast<std::byte>(random());
  }
  result.view = MutableArrayView(result.memory.data() + first, shape, dtype, strides);
  return result;
}

// The image, element by element: slow and obvious.
std::vector<std::byte> image_of(const ArrayView& view) {
  std::vector<std::byte> image;
  const std::size_t item_bytes = bits(view.dtype()) / 8;
  for (std::uint64_t element = 0; element < view.element_count(); ++element) {
    std::uint64_t rest = element;
    std::int64_t offset = 0;
    for (std::size_t dimension = view.rank(); dimension-- > 0;) {
      offset += static_cast<std::int64_t>(rest % view.shape()[dimension]) * view.strides()[dimension];
      rest /= view.shape()[dimension];
    }
    image.insert(image.end(), view.data() + offset, view.data() + offset + item_bytes);
  }
  return image;
}

TEST(CopyRange, GivesEveryRangeOfTheImageOfAnyLayout) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Strided array = random_strided(random);
    const std::vector<std::byte> image = image_of(array.view);
    for (int range = 0; range < 20; ++range) {
      const std::size_t begin = random() % (image.size() + 1);
      std::vector<std::byte> out(random() % (image.size() - begin + 1));
      copy_range(array.view, begin, out);
      ASSERT_TRUE(std::equal(out.begin(), out.end(), image.begin() + static_cast<std::ptrdiff_t>(begin)))
          << "round " << round << " shape " << array.view.shape() << " strides " << array.view.strides();
    }
  }
}

TEST(ScatterRange, IsTheInverseOfCopyRange) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const Strided array = random_strided(random);
    std::vector<std::byte> expected = image_of(array.view);
    const std::size_t begin = random() % (expected.size() + 1);
    const std::size_t size = random() % (expected.size() - begin + 1);
    for (std::size_t index = begin; index < begin + size; ++index) {
      expected[index] = static_cast<std::byte>(random());
    }
    scatter_range(std::span(expected).subspan(begin, size), begin, array.view);
    ASSERT_EQ(image_of(array.view), expected)
        << "round " << round << " shape " << array.view.shape() << " strides " << array.view.strides();
  }
}

TEST(Copy, MovesElementsBetweenAnyTwoLayouts) {
  const std::vector<int> values = {0, 1, 2, 3, 4, 5};
  const ArrayView from = ArrayView(values.data(), {2, 3}, DType::int32).transposed();
  std::vector<int> spaced(12, -1);
  const MutableArrayView to(spaced.data(), {3, 2}, DType::int32, {16, 8});

  copy(from, to);

  EXPECT_THAT(spaced, ElementsAre(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1));
}

TEST(Copy, MovesLargeStridedArraysInPieces) {
  std::vector<std::int16_t> values(300 * 301);
  std::iota(values.begin(), values.end(), std::int16_t{0});
  const ArrayView from = ArrayView(values.data(), {300, 301}, DType::int16).transposed();
  std::vector<std::int16_t> spaced(values.size() * 2);
  const MutableArrayView to(spaced.data(), {301, 300}, DType::int16, {1200, 4});

  copy(from, to);

  EXPECT_TRUE(is_identical(from, to));
}

TEST(Copy, BroadcastsAStrideOfZero) {
  const int seven = 7;
  std::vector<int> values(4);

  copy(ArrayView(&seven, {2, 2}, DType::int32, {0, 0}),
       MutableArrayView(values.data(), {2, 2}, DType::int32));

  EXPECT_THAT(values, ElementsAre(7, 7, 7, 7));
}

TEST(Copy, RefusesAnotherShape) {
  std::vector<int> values(4);

  EXPECT_THAT(
      [&] {
        copy(ArrayView(values.data(), {2, 2}, DType::int32), MutableArrayView(values));
      },
      Fails(Errc::shape_mismatch, HasSubstr("[2, 2] to [4]")));
}

TEST(Copy, RefusesAnotherType) {
  std::vector<int> values(4);
  std::vector<float> others(4);

  EXPECT_THAT([&] { copy(ArrayView(values), MutableArrayView(others)); },
              Fails(Errc::dtype_mismatch, HasSubstr("I32 to F32")));
}

TEST(CopyRange, RefusesRangesThatLeaveTheImage) {
  const std::vector<int> values(4);
  std::array<std::byte, 4> out{};

  EXPECT_THAT([&] { copy_range(values, 13, out); },
              Fails(Errc::invalid_argument, HasSubstr("4 bytes at 13")));
  EXPECT_THAT([&] { copy_range(values, UINT64_MAX, out); }, Fails(Errc::invalid_argument));
}

TEST(CopyRange, RefusesMemoryOfAnotherDevice) {
  const std::vector<int> values(4);
  std::array<std::byte, 4> out{};
  const ArrayView view(values.data(), {4}, DType::int32, Device{Device::Kind::cuda, 0});

  EXPECT_THAT([&] { copy_range(view, 0, out); }, Fails(Errc::invalid_argument, HasSubstr("not the host's")));
}

TEST(CastRange, GivesTheImageInTheOtherType) {
  std::vector<float> values(300 * 200);
  std::iota(values.begin(), values.end(), -1000.0F);
  const ArrayView view = ArrayView(values.data(), {300, 200}, DType::float32).transposed();
  std::vector<double> out(values.size() - 5);

  cast_range(view, DType::float64, 5 * sizeof(double), std::as_writable_bytes(std::span(out)));

  EXPECT_EQ(out[0], values[5 * 200]);
  EXPECT_EQ(out.back(), values.back());
  EXPECT_EQ(out[300 - 5 + 1], values[201]);
}

TEST(CastRange, RefusesNarrowingUnlessItIsAllowed) {
  const std::vector<float> values = {1, 2};
  std::array<std::byte, 4> out{};

  EXPECT_THAT([&] { cast_range(values, DType::bfloat16, 0, out); },
              Fails(Errc::unsafe_cast, HasSubstr("F32 to BF16")));
  EXPECT_NO_THROW(cast_range(values, DType::bfloat16, 0, out, Narrowing::allowed));
}

TEST(CastRange, RefusesToSplitElements) {
  const std::vector<float> values = {1, 2};
  std::array<std::byte, 8> out{};

  EXPECT_THAT([&] { cast_range(values, DType::float64, 4, out); },
              Fails(Errc::invalid_argument, HasSubstr("whole elements")));
  EXPECT_THAT([&] { cast_range(values, DType::float64, std::uint64_t{1} << 63, out); },
              Fails(Errc::invalid_argument));
}

TEST(CastRange, RefusesRangesThatLeaveTheImage) {
  const std::vector<float> values = {1, 2};
  std::array<std::byte, 16> out{};

  EXPECT_THAT([&] { cast_range(values, DType::float64, 8, out); }, Fails(Errc::invalid_argument));
}

TEST(CastScatterRange, FillsAStridedArrayOfAnotherType) {
  const std::vector<std::int16_t> in = {1, -2, 3};
  std::vector<float> spaced(8, 9);
  const MutableArrayView to(spaced.data(), {4}, DType::float32, {8});

  cast_scatter_range(std::as_bytes(std::span(in)), DType::int16, 2, to);

  EXPECT_THAT(spaced, ElementsAre(9, 9, 1, 9, -2, 9, 3, 9));
}

TEST(CastScatterRange, MovesLargeArraysInPieces) {
  std::vector<std::uint8_t> in(100000);
  std::iota(in.begin(), in.end(), std::uint8_t{0});
  std::vector<double> spaced(2 * in.size());
  const MutableArrayView to(spaced.data(), {in.size()}, DType::float64, {16});

  cast_scatter_range(std::as_bytes(std::span(in)), DType::uint8, 0, to);

  for (std::size_t index = 0; index < in.size(); ++index) {
    ASSERT_EQ(spaced[2 * index], in[index]) << index;
  }
}

TEST(CastScatterRange, RefusesRangesThatLeaveTheImage) {
  const std::vector<std::int16_t> in(3);
  std::vector<float> out(2);

  EXPECT_THAT(
      [&] { cast_scatter_range(std::as_bytes(std::span(in)), DType::int16, 0, MutableArrayView(out)); },
      Fails(Errc::invalid_argument));
}

}  // namespace
}  // namespace cairn
