// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/dtype.hpp"

#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/array/format.hpp"

namespace cairn {
namespace {

static_assert(dtype_of<bool>() == DType::boolean);
static_assert(dtype_of<long>() == DType::int64 && dtype_of<long long>() == DType::int64);
static_assert(dtype_of<const float>() == DType::float32);
static_assert(dtype_of<std::complex<float>>() == DType::complex64);
static_assert(!ArrayElement<char> && !ArrayElement<char8_t> && !ArrayElement<long double>);
static_assert(dtype_of<std::complex<double>>() == DType::complex128);
static_assert(!ArrayElement<std::complex<long double>> && !ArrayElement<void*>);

TEST(DType, KeepsItsStoredNumbers) {
  EXPECT_EQ(static_cast<int>(DType::boolean), 1);
  EXPECT_EQ(static_cast<int>(DType::int64), 9);
  EXPECT_EQ(static_cast<int>(DType::float32), 12);
  EXPECT_EQ(static_cast<int>(DType::float8_e8m0), 19);
  EXPECT_EQ(static_cast<int>(DType::float4), 22);
  EXPECT_EQ(static_cast<int>(DType::complex128), 23);
}

TEST(DTypeName, IsUniqueAndParsesBack) {
  std::set<std::string_view> names;
  for (int number = static_cast<int>(kFirstDType); number <= static_cast<int>(kLastDType); ++number) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype) << number;
    names.insert(name(dtype));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kLastDType));
}

TEST(ParseDType, KnowsEveryNameOfSafetensors) {
  for (const char* name :
       {"BOOL",    "F4",          "F6_E2M3",     "F6_E3M2", "U8",  "I8",  "F8_E5M2", "F8_E4M3",
        "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",     "U16", "F16", "BF16",    "I32",
        "U32",     "F32",         "C64",         "F64",     "I64", "U64"}) {
    EXPECT_TRUE(parse_dtype(name).has_value()) << name;
  }
}

TEST(ParseDType, FindsNothingForOtherNames) {
  for (const char* name : {"", "?", "f32", "F32 ", "F128", "FLOAT"}) {
    EXPECT_EQ(parse_dtype(name), std::nullopt) << name;
  }
}

TEST(DType, KnowsItsSizeAndKind) {
  EXPECT_EQ(bits(DType::boolean), 8u);
  EXPECT_EQ(bits(DType::complex64), 64u);
  EXPECT_EQ(bits(DType::complex128), 8 * kMaxElementBytes);
  EXPECT_EQ(bits(DType::float6_e3m2), 6u);
  EXPECT_TRUE(is_packed(DType::float4));
  EXPECT_FALSE(is_packed(DType::float8_e8m0));
  EXPECT_TRUE(is_floating(DType::bfloat16));
  EXPECT_FALSE(is_floating(DType::complex64));
  EXPECT_TRUE(is_complex(DType::complex128));
  EXPECT_TRUE(is_integer(DType::uint8));
  EXPECT_FALSE(is_integer(DType::boolean));
}

TEST(DType, TreatsUnknownNumbersAsNoType) {
  for (const int number : {0, 24, 255}) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_FALSE(is_valid(dtype)) << number;
    EXPECT_EQ(name(dtype), "?") << number;
    EXPECT_EQ(bits(dtype), 0u) << number;
    EXPECT_FALSE(is_packed(dtype)) << number;
  }
}

TEST(DType, PrintsItsName) {
  std::ostringstream out;
  out << DType::bfloat16;

  EXPECT_EQ(out.str(), "BF16");
  EXPECT_EQ(fmt::format("{:>5}", DType::float32), "  F32");
}

}  // namespace
}  // namespace cairn
