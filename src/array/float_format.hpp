// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "cairn/array/dtype.hpp"

namespace cairn {

// What a floating-point format does with the patterns that IEEE 754 gives to infinities and NaNs.
enum class Specials : std::uint8_t {
  ieee,    // The last exponent holds infinity and NaNs.
  fn,      // Only the last pattern is NaN; no infinity.
  fnuz,    // Only the pattern of negative zero is NaN; no infinity.
  finite,  // Neither.
};

// A format with a sign bit, `exponent_bits` and `mantissa_bits`, at most 16 bits in all.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  [[nodiscard]] constexpr int magnitude_bits() const { return exponent_bits + mantissa_bits; }

  [[nodiscard]] constexpr std::uint32_t sign_bit() const { return std::uint32_t{1} << magnitude_bits(); }

  [[nodiscard]] constexpr int min_normal_exponent() const { return 1 - bias; }

  // Infinity's pattern where there is one, else one past the largest finite pattern.
  [[nodiscard]] constexpr std::uint32_t overflow_pattern() const {
    switch (specials) {
      case Specials::ieee:
        return ((std::uint32_t{1} << exponent_bits) - 1) << mantissa_bits;
      case Specials::fn:
        return sign_bit() - 1;
      default:
        return sign_bit();
    }
  }

  // A quiet NaN; 0 where the format has none.
  [[nodiscard]] constexpr std::uint32_t nan_pattern() const {
    switch (specials) {
      case Specials::ieee:
        return overflow_pattern() | (std::uint32_t{1} << (mantissa_bits - 1));
      case Specials::fn:
        return sign_bit() - 1;
      case Specials::fnuz:
        return sign_bit();
      default:
        return 0;
    }
  }
};

inline constexpr FloatFormat kFloat16{5, 10, 15, Specials::ieee};
inline constexpr FloatFormat kBFloat16{8, 7, 127, Specials::ieee};
inline constexpr FloatFormat kFloat8E4M3{4, 3, 7, Specials::fn};
inline constexpr FloatFormat kFloat8E5M2{5, 2, 15, Specials::ieee};
inline constexpr FloatFormat kFloat8E4M3Fnuz{4, 3, 8, Specials::fnuz};
inline constexpr FloatFormat kFloat8E5M2Fnuz{5, 2, 16, Specials::fnuz};
inline constexpr FloatFormat kFloat6E2M3{2, 3, 1, Specials::finite};
inline constexpr FloatFormat kFloat6E3M2{3, 2, 3, Specials::finite};
inline constexpr FloatFormat kFloat4{2, 1, 1, Specials::finite};

namespace binary64 {
inline constexpr int kMantissaBits = 52;
inline constexpr int kBias = 1023;
inline constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kInfinity = std::uint64_t{0x7ff} << kMantissaBits;
inline constexpr std::uint64_t kQuietNaN = kInfinity | std::uint64_t{1} << (kMantissaBits - 1);

// 2^exponent, for exponents of normal numbers.
constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + kBias) << kMantissaBits);
}
}  // namespace binary64

// The pattern of the value of `format` nearest to `value`, ties to even; the rules for what does not fit are
// those of `cast`. Exact: the significand is rounded once, as an integer.
template <FloatFormat kFormat>
constexpr std::uint32_t encode(double value) {
  using namespace binary64;
  const std::uint64_t pattern = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = pattern & ~kSign;
  const std::uint32_t sign = (pattern & kSign) != 0 ? kFormat.sign_bit() : 0;
  constexpr bool kIsFnuz = kFormat.specials == Specials::fnuz;
  if (magnitude > kInfinity) {
    return kIsFnuz || kFormat.specials == Specials::finite ? kFormat.nan_pattern()
                                                           : sign | kFormat.nan_pattern();
  }
  // Too large for any format, infinity included; rounding would shift it out of its 64 bits otherwise.
  const int exponent = static_cast<int>(magnitude >> kMantissaBits) - kBias;
  std::uint32_t code = kFormat.overflow_pattern();
  if (exponent <= kFormat.bias + 1) {
    // The unit in the last place is 2^(scale - mantissa_bits); binary64 subnormals are far below half of it.
    const int scale = exponent > kFormat.min_normal_exponent() ? exponent : kFormat.min_normal_exponent();
    const int shift = scale - exponent + kMantissaBits - kFormat.mantissa_bits;
    std::uint64_t rounded = 0;
    if (shift <= kMantissaBits + 1) {
      const std::uint64_t hidden = std::uint64_t{1} << kMantissaBits;
      const std::uint64_t significand = (magnitude & (hidden - 1)) | hidden;
      const std::uint64_t half = std::uint64_t{1} << (shift - 1);
      const std::uint64_t is_odd = (significand >> shift) & 1;
      rounded = (significand + half - 1 + is_odd) >> shift;
    }
    // The hidden bit carries into the exponent field, and so does rounding up to the next power of two.
    const auto steps = static_cast<std::uint32_t>(scale - kFormat.min_normal_exponent());
    code = static_cast<std::uint32_t>(rounded) + (steps << kFormat.mantissa_bits);
  }
  if (code >= kFormat.overflow_pattern()) {
    if constexpr (kIsFnuz) {
      return kFormat.nan_pattern();
    }
    code = kFormat.overflow_pattern() - (kFormat.specials == Specials::finite ? 1 : 0);
  }
  return kIsFnuz && code == 0 ? 0 : sign | code;
}

// The value of a pattern; the bits above the sign are ignored.
template <FloatFormat kFormat>
constexpr double decode(std::uint32_t pattern) {
  const std::uint32_t magnitude = pattern & (kFormat.sign_bit() - 1);
  const bool is_negative = (pattern & kFormat.sign_bit()) != 0;
  const auto with_sign = [&](std::uint64_t bits) {
    return std::bit_cast<double>(bits | (is_negative ? binary64::kSign : 0));
  };
  if (kFormat.specials == Specials::fnuz && is_negative && magnitude == 0) {
    return std::bit_cast<double>(binary64::kQuietNaN);
  }
  if (kFormat.specials == Specials::ieee && magnitude == kFormat.overflow_pattern()) {
    return with_sign(binary64::kInfinity);
  }
  if (kFormat.specials != Specials::finite && kFormat.specials != Specials::fnuz &&
      magnitude >= kFormat.overflow_pattern()) {
    return with_sign(binary64::kQuietNaN);
  }
  const std::uint32_t mantissa = magnitude & ((std::uint32_t{1} << kFormat.mantissa_bits) - 1);
  const auto field = static_cast<int>(magnitude >> kFormat.mantissa_bits);
  const std::uint32_t hidden = field != 0 ? std::uint32_t{1} << kFormat.mantissa_bits : 0;
  const int scale = (field != 0 ? field : 1) - kFormat.bias - kFormat.mantissa_bits;
  const double value = (hidden + mantissa) * binary64::power_of_two(scale);
  return is_negative ? -value : value;
}

// The values of all patterns of a format of at most eight bits.
template <FloatFormat kFormat>
constexpr std::array<double, 256> decode_table() {
  std::array<double, 256> table{};
  for (std::uint32_t pattern = 0; pattern < table.size(); ++pattern) {
    table[pattern] = decode<kFormat>(pattern);
  }
  return table;
}

// E8M0 is an exponent and nothing else, so it is not a FloatFormat. 0xff is NaN.
constexpr double decode_e8m0(std::uint8_t pattern) {
  return pattern == 0xff ? std::bit_cast<double>(binary64::kQuietNaN)
                         : binary64::power_of_two(int{pattern} - 127);
}

// A tie lies between 1 and 2 units of the lower power; 2 is even, so ties go up.
constexpr std::uint8_t encode_e8m0(double value) {
  using namespace binary64;
  if (!(value > 0)) {
    return 0xff;
  }
  const std::uint64_t pattern = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t rounded = (pattern + (std::uint64_t{1} << (kMantissaBits - 1))) >> kMantissaBits;
  const int code = static_cast<int>(rounded) - kBias + 127;
  return static_cast<std::uint8_t>(code < 0 ? 0 : (code > 0xff ? 0xff : code));
}

}  // namespace cairn
