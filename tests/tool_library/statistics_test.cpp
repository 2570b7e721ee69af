// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/statistics.hpp"

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace cairn::tools {
namespace {

template <class T>
ArrayStatistics of(const std::vector<T>& values, DType dtype) {
  StatisticsGatherer gatherer(dtype);
  gatherer.add(std::as_bytes(std::span(values)));
  return gatherer.result();
}

using Number = ArrayStatistics::Number;

TEST(Statistics, CountsNaNsAndZerosAndLeavesNaNsOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();

  const ArrayStatistics statistics = of<float>({0.1F, nan, -0.0F, 0.5F}, DType::float32);

  EXPECT_EQ(statistics.elements, 4u);
  EXPECT_EQ(statistics.nans, 1u);
  EXPECT_EQ(statistics.zeros, 1u);
  EXPECT_TRUE(std::signbit(std::get<double>(*statistics.min)));
  EXPECT_EQ(statistics.max, Number(0.5));
  EXPECT_FLOAT_EQ(static_cast<float>(*statistics.mean), 0.2F);
}

TEST(Statistics, KeepsIntegersThatDoNotFitInADouble) {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();

  EXPECT_EQ(of<std::uint64_t>({most - 1, most}, DType::uint64).min, Number(most - 1));
  EXPECT_EQ(of<std::int64_t>({least, least + 1}, DType::int64).max, Number(least + 1));
}

TEST(Statistics, TheMeanOfManySmallOnesIsNotLostBesideALargeOne) {
  std::vector<double> values(1 << 16, 1.0);
  values[0] = 1e16;
  values.push_back(-1e16);

  EXPECT_EQ(*of(values, DType::float64).mean, 65535.0 / 65537.0);
}

TEST(Statistics, HasNoNumbersOfNothingAndOfNaNs) {
  EXPECT_FALSE(StatisticsGatherer(DType::float32).result().min);
  EXPECT_FALSE(of<double>({std::nan("")}, DType::float64).mean);
}

TEST(Statistics, TheMeanOfBothInfinitiesIsNoNumberWithoutASign) {
  const double infinity = std::numeric_limits<double>::infinity();

  const double mean = *of<double>({infinity, -infinity}, DType::float64).mean;

  EXPECT_TRUE(std::isnan(mean));
  EXPECT_FALSE(std::signbit(mean));
}

TEST(Statistics, InfinitiesAreNumbers) {
  const ArrayStatistics statistics = of<double>({1, INFINITY}, DType::float64);

  EXPECT_EQ(statistics.max, Number(INFINITY));
  EXPECT_EQ(*statistics.mean, INFINITY);
}

TEST(Statistics, KnowsTypesThatCppLacks) {
  const ArrayStatistics bfloat = of<std::uint16_t>({0x3dcd, 0xbf80}, DType::bfloat16);  // 0.1, -1
  const ArrayStatistics packed = of<std::uint8_t>({0x21, 0xf0}, DType::float4);         // 0.5 1 / 0 -6
  const ArrayStatistics truth = of<std::uint8_t>({0, 1, 1, 1}, DType::boolean);

  EXPECT_NEAR(std::get<double>(*bfloat.max), 0.1, 1e-3);
  EXPECT_EQ(bfloat.min, Number(-1.0));
  EXPECT_EQ(packed.min, Number(-6.0));
  EXPECT_EQ(packed.zeros, 1u);
  EXPECT_EQ(truth.max, Number(1.0));
  EXPECT_EQ(*truth.mean, 0.75);
}

TEST(Statistics, OfComplexNumbersTellsNaNsAndZeros) {
  const float nan = std::numeric_limits<float>::quiet_NaN();

  const ArrayStatistics statistics = of<std::complex<float>>({{0, 0}, {0, nan}, {0, 1}}, DType::complex64);

  EXPECT_EQ(statistics.elements, 3u);
  EXPECT_EQ(statistics.nans, 1u);
  EXPECT_EQ(statistics.zeros, 1u);
  EXPECT_FALSE(statistics.min);

  const ArrayStatistics wide = of<std::complex<double>>({{0, 0}, {nan, 1}, {1e-300, 0}}, DType::complex128);
  EXPECT_EQ(wide.elements, 3u);
  EXPECT_EQ(wide.nans, 1u);
  EXPECT_EQ(wide.zeros, 1u);
}

TEST(Statistics, OfManyPiecesAreThoseOfAll) {
  std::vector<std::int32_t> values(100'000);
  std::iota(values.begin(), values.end(), -1);
  StatisticsGatherer gatherer(DType::int32);
  const auto bytes = std::as_bytes(std::span(values));
  gatherer.add(bytes.first(4 * 5000));
  gatherer.add(bytes.subspan(4 * 5000));

  EXPECT_EQ(gatherer.result().elements, values.size());
  EXPECT_EQ(gatherer.result().min, Number(-1.0));
  EXPECT_EQ(gatherer.result().max, Number(99998.0));
  EXPECT_EQ(gatherer.result().zeros, 1u);
}

}  // namespace
}  // namespace cairn::tools
