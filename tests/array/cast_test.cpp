// SPDX-License-Identifier: Apache-2.0
#include "array/internal/cast.hpp"

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"
#include "support/other_arithmetic.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

// The tables under tests/data/casts come from numpy and ml_dtypes; their README says what they hold.
namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<std::vector<std::string>> read_table(const std::string& name) {
  std::istringstream text(testing::read_text(testing::test_data() / "casts" / name));
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(text, line);  // The header.
  while (std::getline(text, line)) {
    std::istringstream fields(line);
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) {
      row.push_back(field);
    }
  }
  return rows;
}

std::uint64_t hexadecimal(const std::string& text) {
  return std::stoull(text, nullptr, 16);
}

template <class To, class From>
std::vector<To> cast_all(const std::vector<From>& in, DType from, DType to) {
  std::vector<To> out(in.size() * sizeof(From) * 8 / bits(from) * bits(to) / 8 / sizeof(To));
  cast(std::as_bytes(std::span(in)), from, std::as_writable_bytes(std::span(out)), to, Narrowing::allowed);
  return out;
}

// Several elements of a packed type share a byte; four equal ones fill whole bytes for every type.
constexpr std::size_t kGroup = 4;

// The patterns of one element in any type of 8 bits or less, as that type's bytes.
std::vector<std::uint8_t> group_of(DType dtype, std::uint64_t pattern) {
  std::uint64_t packed = 0;
  for (std::size_t index = 0; index < kGroup; ++index) {
    packed |= pattern << (index * bits(dtype));
  }
  std::vector<std::uint8_t> bytes(kGroup * bits(dtype) / 8);
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    bytes[index] = static_cast<std::uint8_t>(packed >> (8 * index));
  }
  return bytes;
}

std::uint64_t fnv(std::span<const std::uint32_t> words) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint32_t word : words) {
    hash = (hash ^ word) * 0x100000001b3;
  }
  return hash;
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(1 << 16);
  for (std::size_t pattern = 0; pattern < patterns.size(); ++pattern) {
    patterns[pattern] = static_cast<std::uint16_t>(pattern);
  }
  return patterns;
}

std::vector<std::uint32_t> canonical(const std::vector<float>& values) {
  std::vector<std::uint32_t> words;
  for (const float value : values) {
    words.push_back(std::isnan(value) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(value));
  }
  return words;
}

// The inputs that README names, in its order.
std::vector<float> spread_inputs() {
  std::vector<float> values;
  for (std::uint64_t index = 0; index < (1u << 18); ++index) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(index * 2654435761u)));
  }
  return values;
}

std::vector<float> midpoint_inputs(DType dtype) {
  const auto decoded = cast_all<float>(all_patterns(), dtype, DType::float32);
  std::vector<float> values;
  for (std::size_t pattern = 0; pattern + 1 < decoded.size(); ++pattern) {
    if (pattern == 0x7fff || !std::isfinite(decoded[pattern]) || !std::isfinite(decoded[pattern + 1])) {
      continue;
    }
    const double middle = (double{decoded[pattern]} + double{decoded[pattern + 1]}) / 2;
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(middle));
    for (const std::uint32_t word : {bits - 1, bits, bits + 1}) {
      values.push_back(std::bit_cast<float>(word));
    }
  }
  return values;
}

std::vector<std::uint32_t> encoded(const std::vector<float>& values, DType dtype) {
  const auto patterns = cast_all<std::uint16_t>(values, DType::float32, dtype);
  std::vector<std::uint32_t> words;
  for (std::size_t index = 0; index < patterns.size(); ++index) {
    words.push_back(std::isnan(values[index]) ? 0x7fffu : patterns[index]);
  }
  return words;
}

// Compares blocks of results with the hashes of one kind ("decode", "spread", "midpoint") and dtype.
void expect_hashes(const std::string& what, DType dtype, const std::vector<std::uint32_t>& words,
                   std::size_t block) {
  std::size_t blocks = 0;
  for (const auto& row : read_table("hashes.csv")) {
    if (row[0] != what || row[1] != name(dtype)) {
      continue;
    }
    const std::size_t begin = std::stoul(row[2]) * block;
    ASSERT_LT(begin, words.size());
    const auto piece = std::span(words).subspan(begin, std::min(block, words.size() - begin));
    EXPECT_EQ(fnv(piece), hexadecimal(row[3])) << what << " " << row[1] << " block " << row[2];
    ++blocks;
  }
  EXPECT_EQ(blocks, (words.size() + block - 1) / block);
}

TEST(CastFromSmallFloats, AgreesWithTheTableForEveryPattern) {
  const auto rows = read_table("decode.csv");
  ASSERT_EQ(rows.size(), 1424u);
  for (const auto& row : rows) {
    const DType dtype = parse_dtype(row[0]).value();
    const auto values = cast_all<float>(group_of(dtype, hexadecimal(row[1])), dtype, DType::float32);
    for (const std::uint32_t word : canonical(values)) {
      EXPECT_EQ(word, hexadecimal(row[2])) << row[0] << " " << row[1];
    }
  }
}

TEST(CastToSmallFloats, AgreesWithTheTable) {
  const auto rows = read_table("encode.csv");
  ASSERT_EQ(rows.size(), 8796u);
  for (const auto& row : rows) {
    const DType dtype = parse_dtype(row[0]).value();
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(hexadecimal(row[1])));
    EXPECT_EQ(cast_all<std::uint8_t>(std::vector<float>(kGroup, value), DType::float32, dtype),
              group_of(dtype, hexadecimal(row[2])))
        << row[0] << " " << row[1] << " = " << value;
  }
}

TEST(CastToPowersOfTwo, RoundsSubnormalFloatsToTheNearest) {
  const std::vector<float> values = {0x1.000002p-127F, 0x1.7ffffcp-127F, 0x1.8p-127F, 0x1p-149F};

  EXPECT_THAT(cast_all<std::uint8_t>(values, DType::float32, DType::float8_e8m0), ElementsAre(0, 0, 1, 0));
}

class CastOfHalves : public ::testing::TestWithParam<DType> {};

TEST_P(CastOfHalves, AgreesWithTheTableForEveryPattern) {
  expect_hashes("decode", GetParam(), canonical(cast_all<float>(all_patterns(), GetParam(), DType::float32)),
                1024);
}

TEST_P(CastOfHalves, AgreesWithTheTableForFloatsAllOverTheRange) {
  expect_hashes("spread", GetParam(), encoded(spread_inputs(), GetParam()), 4096);
}

TEST_P(CastOfHalves, AgreesWithTheTableAroundEveryMidpoint) {
  expect_hashes("midpoint", GetParam(), encoded(midpoint_inputs(GetParam()), GetParam()), 4096);
}

// The fast path and the way over double are two implementations.
TEST_P(CastOfHalves, FromDoubleIsTheSameAsFromFloat) {
  const std::vector<float> floats = spread_inputs();
  const std::vector<double> doubles(floats.begin(), floats.end());
  const auto direct = encoded(floats, GetParam());
  const auto wide = cast_all<std::uint16_t>(doubles, DType::float64, GetParam());

  for (std::size_t index = 0; index < wide.size(); ++index) {
    ASSERT_EQ(std::isnan(floats[index]) ? 0x7fffu : wide[index], direct[index]) << floats[index];
  }
}

TEST_P(CastOfHalves, KeepsNaNAndItsSign) {
  const auto patterns = cast_all<std::uint16_t>(std::vector<float>{kNaN, -kNaN}, DType::float32, GetParam());
  const auto wide = cast_all<std::uint16_t>(std::vector<double>{kNaN, -kNaN}, DType::float64, GetParam());

  EXPECT_EQ(patterns, wide);
  EXPECT_EQ(patterns[0] | 0x8000, patterns[1]);
  for (const float value : cast_all<float>(patterns, GetParam(), DType::float32)) {
    EXPECT_TRUE(std::isnan(value));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CastOfHalves, ::testing::Values(DType::float16, DType::bfloat16),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(CastOfWideNumbers, RoundsOnce) {
  const auto rows = read_table("wide.csv");
  ASSERT_EQ(rows.size(), 3777u);
  for (const auto& row : rows) {
    const DType dtype = parse_dtype(row[0]).value();
    const bool is_double = row[1] == "F64";
    const std::uint64_t value = is_double ? std::bit_cast<std::uint64_t>(std::strtod(row[2].c_str(), nullptr))
                                          : static_cast<std::uint64_t>(std::stoll(row[2]));
    std::uint16_t pattern = 0;
    cast(std::as_bytes(std::span(&value, 1)), is_double ? DType::float64 : DType::int64,
         std::as_writable_bytes(std::span(&pattern, 1)).first(bits(dtype) / 8), dtype, Narrowing::allowed);
    EXPECT_EQ(pattern, hexadecimal(row[3])) << row[0] << " " << row[1] << " " << row[2];
  }
}

TEST(CastOfWideNumbers, OfInt64ToFloatAndDoubleIsWhatTheCompilerDoes) {
  std::vector<std::int64_t> values = {
      0, 1, -1, INT64_MIN, INT64_MAX, (1LL << 53) + 1, (1LL << 54) + 3, -(1LL << 53) - 1};
  for (std::uint64_t word = 1; word < 1000; ++word) {
    values.push_back(static_cast<std::int64_t>(word * 0x9e3779b97f4a7c15u) >> (word % 60));
  }
  const std::vector<float> floats(values.begin(), values.end());
  const std::vector<double> doubles(values.begin(), values.end());

  EXPECT_EQ(cast_all<float>(values, DType::int64, DType::float32), floats);
  EXPECT_EQ(cast_all<double>(values, DType::int64, DType::float64), doubles);
}

TEST(CastOfWideNumbers, OfUint64UsesAllBits) {
  const std::vector<std::uint64_t> values = {UINT64_MAX, (1ULL << 63) + (1ULL << 39) + 1};

  EXPECT_THAT(cast_all<float>(values, DType::uint64, DType::float32), ElementsAre(0x1p64F, 0x1.000002p63F));
}

TEST(CastToIntegers, CutsTheFractionOffAndSaturates) {
  const std::vector<float> values = {1.9F, -1.9F, 300, -300, kInfinity, -kInfinity, kNaN, -0.0F};

  EXPECT_THAT(cast_all<std::int8_t>(values, DType::float32, DType::int8),
              ElementsAre(1, -1, 127, -128, 127, -128, 0, 0));
  EXPECT_THAT(cast_all<std::uint8_t>(values, DType::float32, DType::uint8),
              ElementsAre(1, 0, 255, 0, 255, 0, 0, 0));
}

TEST(CastToIntegers, SaturatesAtTheEdgesOf64Bits) {
  const std::vector<double> values = {0x1p63, -0x1p63, 0x1.fffffffffffffp62, 0x1p64};

  EXPECT_THAT(cast_all<std::int64_t>(values, DType::float64, DType::int64),
              ElementsAre(INT64_MAX, INT64_MIN, 0x7ffffffffffffc00, INT64_MAX));
  EXPECT_THAT(cast_all<std::uint64_t>(values, DType::float64, DType::uint64),
              ElementsAre(1ULL << 63, 0u, 0x7ffffffffffffc00u, UINT64_MAX));
}

TEST(CastToIntegers, SaturatesOtherIntegers) {
  const std::vector<std::int32_t> values = {70000, -70000, 5, -5};

  EXPECT_THAT(cast_all<std::int16_t>(values, DType::int32, DType::int16), ElementsAre(32767, -32768, 5, -5));
  EXPECT_THAT(cast_all<std::uint16_t>(values, DType::int32, DType::uint16), ElementsAre(65535, 0, 5, 0));
  EXPECT_THAT(cast_all<std::uint64_t>(values, DType::int32, DType::uint64), ElementsAre(70000u, 0u, 5u, 0u));
}

TEST(CastToBoolean, IsTrueForEverythingButZero) {
  const std::vector<float> values = {0, -0.0F, 0.5F, kNaN};

  EXPECT_THAT(cast_all<std::uint8_t>(values, DType::float32, DType::boolean), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(cast_all<std::uint8_t>(std::vector<std::int64_t>{0, INT64_MIN}, DType::int64, DType::boolean),
              ElementsAre(0, 1));
}

TEST(CastFromBoolean, CountsAnyOtherByteAsOne) {
  const std::vector<std::uint8_t> bytes = {0, 1, 2};

  EXPECT_THAT(cast_all<std::int32_t>(bytes, DType::boolean, DType::int32), ElementsAre(0, 1, 1));
  EXPECT_THAT(cast_all<float>(bytes, DType::boolean, DType::float32), ElementsAre(0, 1, 1));
}

TEST(CastToComplex, HasNoImaginaryPart) {
  EXPECT_THAT(cast_all<float>(std::vector<float>{1.5F, -2}, DType::float32, DType::complex64),
              ElementsAre(1.5F, 0, -2, 0));
  EXPECT_THAT(
      cast_all<double>(std::vector<std::int64_t>{(1LL << 53) + 3, -2}, DType::int64, DType::complex128),
      ElementsAre(0x1p53 + 4, 0, -2, 0));
}

TEST(CastBetweenComplexTypes, CastsBothPartsOfEach) {
  const std::vector<float> narrow = {1.5F, -2, 0x1p-149F, kInfinity};
  const std::vector<double> wide = {1.5, -2, 0x1p-149, kInfinity};

  EXPECT_EQ(cast_all<double>(narrow, DType::complex64, DType::complex128), wide);
  EXPECT_EQ(cast_all<float>(wide, DType::complex128, DType::complex64), narrow);
  EXPECT_THAT(cast_all<float>(std::vector<double>{1 + 1e-9, -1e300}, DType::complex128, DType::complex64),
              ElementsAre(1, -kInfinity));
}

TEST(CastFromComplex, IsRefusedEvenWhenNarrowingIsAllowed) {
  const std::vector<float> values(2);
  std::vector<float> out(1);

  EXPECT_THAT(
      [&] {
        cast(std::as_bytes(std::span(values)), DType::complex64, std::as_writable_bytes(std::span(out)),
             DType::float32, Narrowing::allowed);
      },
      Fails(Errc::unsafe_cast, HasSubstr("imaginary")));
}

TEST(CastToTypesWithoutNaN, MakesItZero) {
  for (const DType dtype : {DType::float6_e2m3, DType::float6_e3m2, DType::float4}) {
    EXPECT_EQ(cast_all<std::uint8_t>(std::vector<float>(kGroup, -kNaN), DType::float32, dtype),
              group_of(dtype, 0));
  }
}

TEST(CastToSmallFloats, MakesNaNOutOfNaN) {
  for (const DType dtype : {DType::float8_e4m3, DType::float8_e5m2, DType::float8_e4m3fnuz,
                            DType::float8_e5m2fnuz, DType::float8_e8m0}) {
    const auto pattern = cast_all<std::uint8_t>(std::vector<float>{kNaN}, DType::float32, dtype);
    EXPECT_TRUE(std::isnan(cast_all<float>(pattern, dtype, DType::float32)[0])) << dtype;
  }
}

TEST(CastOfPackedTypes, TakesTheLowBitsFirst) {
  // 1.0 is 0x2 and -6 is 0xf in E2M1; 1.0 is 0x08 in E2M3.
  EXPECT_THAT(cast_all<float>(std::vector<std::uint8_t>{0xf2}, DType::float4, DType::float32),
              ElementsAre(1, -6));
  EXPECT_THAT(cast_all<std::uint8_t>(std::vector<float>{1, 0, 0, -7.5F}, DType::float32, DType::float6_e2m3),
              ElementsAre(0x08, 0x00, 0xfc));
}

TEST(CastOfEqualTypes, CopiesBits) {
  const std::vector<std::uint16_t> signalling = {0x7c01, 0xfdff};

  EXPECT_EQ(cast_all<std::uint16_t>(signalling, DType::float16, DType::float16), signalling);
}

TEST(CastOfManyElements, TreatsEveryBlockAlike) {
  std::vector<std::uint8_t> patterns(3 * 1001);
  for (std::size_t index = 0; index < patterns.size(); ++index) {
    patterns[index] = static_cast<std::uint8_t>(index * 37);
  }
  const auto values = cast_all<double>(patterns, DType::float6_e3m2, DType::float64);

  EXPECT_EQ(values.size(), 4004u);
  EXPECT_EQ(cast_all<std::uint8_t>(values, DType::float64, DType::float6_e3m2), patterns);
}

TEST(Cast, RefusesNarrowingUnlessItIsAllowed) {
  const std::vector<float> in(2);
  std::vector<std::uint16_t> out(2);

  EXPECT_THAT(
      [&] {
        cast(std::as_bytes(std::span(in)), DType::float32, std::as_writable_bytes(std::span(out)),
             DType::float16);
      },
      Fails(
          Errc::unsafe_cast,
          HasSubstr(
              "F32 to F16 can change values; Narrowing::allowed permits it, in loads also allow_narrowing")));
}

TEST(Cast, RefusesSizesThatDoNotMatch) {
  const std::vector<std::byte> in(6);
  std::vector<std::byte> out(8);

  EXPECT_THAT([&] { cast(in, DType::float16, out, DType::float32); },
              Fails(Errc::invalid_argument, HasSubstr("6 bytes")));
  EXPECT_THAT([&] { cast(std::span(in).first(3), DType::float16, std::span(out).first(4), DType::float32); },
              Fails(Errc::invalid_argument));
}

TEST(Cast, RefusesUnknownTypes) {
  const std::vector<std::byte> in(4);
  std::vector<std::byte> out(4);

  EXPECT_THAT([&] { cast(in, DType{77}, out, DType::float32); },
              Fails(Errc::invalid_argument, HasSubstr("77")));
  EXPECT_THAT([&] { cast(in, DType::float32, out, DType{}); }, Fails(Errc::invalid_argument));
}

// Subnormal numbers, such as become subnormal, ties, what lies between two values and what is beyond a range; eight
// for each integer, which are not values of the floats.
std::vector<std::uint8_t> awkward_values(DType dtype) {
  if (is_integer(dtype) && bits(dtype) == 64) {
    const std::vector<std::int64_t> integers = {
        INT64_MAX,       INT64_MIN + 1, (1LL << 53) + 1,   -(1LL << 53) - 1,
        (1LL << 24) + 1, 1LL << 62,     (1LL << 60) + 129, -3};
    return cast_all<std::uint8_t>(integers, DType::int64, DType::int64);
  }
  const std::vector<double> doubles = {0x1p-149,  -0x1p-127,     0x1.8p-149, 5e-324,  -1e-310, 1 + 1e-9,
                                       -1 - 1e-9, 0.1,           -0.3,       0x1p-24, 0x1p-25, 65504.5,
                                       1e300,     -3.4028236e38, 123456789,  -2.5};
  return cast_all<std::uint8_t>(doubles, DType::float64, dtype);
}

TEST(Cast, IsThatOfIeee754HoweverItsThreadComputes) {
  for (int from_number = 1; from_number <= static_cast<int>(kLastDType); ++from_number) {
    for (int to_number = 1; to_number <= static_cast<int>(kLastDType); ++to_number) {
      const auto from = static_cast<DType>(from_number);
      const auto to = static_cast<DType>(to_number);
      if (is_complex(from)) {
        continue;
      }
      const std::vector<std::uint8_t> values = awkward_values(from);
      const auto expected = cast_all<std::uint8_t>(values, from, to);
      for (const int rounding : testing::OtherArithmetic::kRoundings) {
        std::vector<std::uint8_t> result;
        {
          const testing::OtherArithmetic arithmetic(rounding);
          result = cast_all<std::uint8_t>(values, from, to);
        }
        EXPECT_EQ(result, expected) << from << " to " << to << " in mode " << rounding;
      }
    }
  }
}

TEST(Cast, GivesItsThreadTheControlWordBack) {
  const std::vector<double> values = {kNaN, 1e300, 1e-310, 0.1};
  const testing::OtherArithmetic arithmetic(FE_UPWARD);
  const std::uint64_t before = testing::control_word();

  const auto floats = cast_all<float>(values, DType::float64, DType::float32);

  EXPECT_EQ(testing::control_word(), before);
  EXPECT_EQ(floats[1], kInfinity);
}

TEST(Cast, OfNothingIsNothing) {
  EXPECT_NO_THROW(cast({}, DType::int8, {}, DType::float64));
}

// Every pattern of a type of at most 16 bits; a multiple of four elements, so that any other type has whole
// bytes.
std::vector<std::uint8_t> every_value(DType dtype) {
  std::vector<std::uint8_t> bytes;
  const std::uint64_t count = dtype == DType::boolean ? 2 : std::uint64_t{1} << bits(dtype);
  for (std::uint64_t pattern = 0; pattern < count; ++pattern) {
    if (bits(dtype) == 16) {
      bytes.push_back(static_cast<std::uint8_t>(pattern));
      bytes.push_back(static_cast<std::uint8_t>(pattern >> 8));
      continue;
    }
    const auto group = group_of(dtype, pattern);
    bytes.insert(bytes.end(), group.begin(), group.end());
  }
  return bytes;
}

bool keeps_every_value(DType from, DType to) {
  const auto bytes = every_value(from);
  const auto expected = cast_all<double>(bytes, from, DType::float64);
  const auto result = cast_all<double>(cast_all<std::uint8_t>(bytes, from, to), to, DType::float64);
  for (std::size_t index = 0; index < expected.size(); ++index) {
    const bool is_same =
        std::bit_cast<std::uint64_t>(expected[index]) == std::bit_cast<std::uint64_t>(result[index]);
    if (!is_same && !(std::isnan(expected[index]) && std::isnan(result[index]))) {
      return false;
    }
  }
  return true;
}

TEST(IsWidening, IsTrueExactlyWhenACastKeepsEveryValue) {
  for (int from_number = 1; from_number <= static_cast<int>(kLastDType); ++from_number) {
    const auto from = static_cast<DType>(from_number);
    if (bits(from) > 16) {
      continue;
    }
    for (int to_number = 1; to_number <= static_cast<int>(kLastDType); ++to_number) {
      const auto to = static_cast<DType>(to_number);
      if (!is_complex(to)) {
        EXPECT_EQ(is_widening(from, to), keeps_every_value(from, to)) << from << " to " << to;
      }
    }
  }
}

TEST(IsWidening, KnowsTheWideTypes) {
  EXPECT_TRUE(is_widening(DType::int32, DType::float64));
  EXPECT_TRUE(is_widening(DType::uint32, DType::int64));
  EXPECT_TRUE(is_widening(DType::float32, DType::complex64));
  EXPECT_TRUE(is_widening(DType::complex64, DType::complex64));
  EXPECT_TRUE(is_widening(DType::complex64, DType::complex128));
  EXPECT_TRUE(is_widening(DType::float64, DType::complex128));
  EXPECT_FALSE(is_widening(DType::int32, DType::float32));
  EXPECT_FALSE(is_widening(DType::int64, DType::float64));
  EXPECT_FALSE(is_widening(DType::uint64, DType::int64));
  EXPECT_FALSE(is_widening(DType::float64, DType::complex64));
  EXPECT_FALSE(is_widening(DType::complex64, DType::float64));
  EXPECT_FALSE(is_widening(DType::complex128, DType::complex64));
  EXPECT_FALSE(is_widening(DType::int64, DType::complex128));
  EXPECT_FALSE(is_widening(DType{}, DType::float32));
}

}  // namespace
}  // namespace cairn
