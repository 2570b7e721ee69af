// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/array_difference.hpp"

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/array/array.hpp"

namespace cairn::tools {
namespace {

ArrayDifference compare(const ArrayView& a, const ArrayView& b, std::optional<double> tolerance) {
  ArrayDifference difference;
  add_difference(a.bytes(), b.bytes(), a.dtype(), tolerance, difference);
  return difference;
}

template <class T>
ArrayDifference difference(std::vector<T> a, std::vector<T> b, std::optional<double> tolerance = {}) {
  return compare(ArrayView(a), ArrayView(b), tolerance);
}

TEST(ArrayDifference, FindsOneElementOfEveryDtype) {
  constexpr std::uint64_t kElements = 10'000;  // More than one block.
  for (int i = static_cast<int>(kFirstDType); i <= static_cast<int>(kLastDType); ++i) {
    const auto dtype = static_cast<DType>(i);
    const Array a = Array::zeros({kElements}, dtype);
    const Array b = Array::zeros({kElements}, dtype);
    EXPECT_EQ(compare(a.view(), b.view(), {}).differing, 0u) << dtype;
    b.mutable_view().bytes()[b.byte_count() - 1] = std::byte{0x40};

    const ArrayDifference found = compare(a.view(), b.view(), {});

    EXPECT_EQ(found.elements, kElements);
    EXPECT_EQ(found.differing, 1u) << dtype;
    EXPECT_GT(found.largest, 0) << dtype;
  }
}

TEST(ArrayDifference, CountsElementsThatShareAByte) {
  const Array a = Array::zeros({4}, DType::float4);
  const Array b = Array::zeros({4}, DType::float4);
  b.mutable_view().bytes()[0] = std::byte{0x22};  // 1.0 twice.

  const ArrayDifference found = compare(a.view(), b.view(), {});

  EXPECT_EQ(found.differing, 2u);
  EXPECT_EQ(found.largest, 1);
}

TEST(ArrayDifference, TakesTheDistanceOfLargeIntegersBeforeItRounds) {
  EXPECT_EQ(difference<std::int64_t>({1L << 60}, {(1L << 60) + 1}).largest, 1);
  EXPECT_EQ(difference<std::uint64_t>({~0UL}, {~0UL - 3}).largest, 3);
  EXPECT_EQ(difference<std::int64_t>({std::numeric_limits<std::int64_t>::min()},
                                     {std::numeric_limits<std::int64_t>::max()})
                .largest,
            0x1p64);
}

TEST(ArrayDifference, TakesTheDistanceOfComplexNumbersInThePlane) {
  EXPECT_EQ(difference<std::complex<float>>({{1, 1}}, {{4, 5}}).largest, 5);
  EXPECT_EQ(difference<std::complex<double>>({{1, 1}}, {{4, 5 + 1e-9}}).largest, std::hypot(3, 4 + 1e-9));
}

TEST(ArrayDifference, TakesEqualInfinitiesForEqual) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(difference<double>({infinity}, {infinity}, 0.0).differing, 0u);
  EXPECT_EQ(difference<double>({infinity}, {-infinity}, 1.0).largest, infinity);
}

TEST(ArrayDifference, HasNoneBetweenArraysWithoutElements) {
  const Array empty = Array::zeros({0, 4}, DType::float32);
  EXPECT_EQ(compare(empty.view(), empty.view(), {}).differing, 0u);
}

TEST(ArrayDifference, ComparesScalars) {
  const Array a = Array::zeros({}, DType::int32);
  const Array b = Array::zeros({}, DType::int32);
  b.data<std::int32_t>()[0] = -7;
  EXPECT_EQ(compare(a.view(), b.view(), {}).largest, 7);
}

}  // namespace
}  // namespace cairn::tools
