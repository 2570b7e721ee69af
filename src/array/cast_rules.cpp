// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include "array/float_format.hpp"
#include "array/internal/cast.hpp"

namespace cairn {
namespace {

// The values of a type: s * k * 2^q with k < 2^digits and q >= min_exponent, up to `largest`.
struct Values {
  int digits = 0;
  int min_exponent = 0;
  double largest = 0;
  bool is_signed = false;
  bool has_zero = true;
  bool has_negative_zero = false;
  bool has_infinity = false;
  bool has_nan = false;
};

constexpr Values integer_values(int digits, bool is_signed) {
  // The most negative integer is 2^digits; as a power of two it needs one digit only.
  const double power = binary64::power_of_two(digits);
  return {digits, 0, is_signed ? power : power - 1, is_signed};
}

template <FloatFormat kFormat>
constexpr Values float_values() {
  return {kFormat.mantissa_bits + 1,
          kFormat.min_normal_exponent() - kFormat.mantissa_bits,
          decode<kFormat>(kFormat.overflow_pattern() - 1),
          true,
          true,
          kFormat.specials != Specials::fnuz,
          kFormat.specials == Specials::ieee,
          kFormat.specials != Specials::finite};
}

template <class T>
constexpr Values native_values() {
  using Limits = std::numeric_limits<T>;
  static_assert(Limits::is_iec559, "casts rely on IEEE 754 arithmetic");
  return {Limits::digits,
          Limits::min_exponent - Limits::digits,
          double{Limits::max()},
          true,
          true,
          true,
          true,
          true};
}

Values values_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::boolean:
      return integer_values(1, false);
    case DType::uint8:
      return integer_values(8, false);
    case DType::uint16:
      return integer_values(16, false);
    case DType::uint32:
      return integer_values(32, false);
    case DType::uint64:
      return integer_values(64, false);
    case DType::int8:
      return integer_values(7, true);
    case DType::int16:
      return integer_values(15, true);
    case DType::int32:
      return integer_values(31, true);
    case DType::int64:
      return integer_values(63, true);
    case DType::float16:
      return float_values<kFloat16>();
    case DType::bfloat16:
      return float_values<kBFloat16>();
    case DType::float32:
    case DType::complex64:
      return native_values<float>();
    case DType::float64:
    case DType::complex128:
      return native_values<double>();
    case DType::float8_e4m3:
      return float_values<kFloat8E4M3>();
    case DType::float8_e5m2:
      return float_values<kFloat8E5M2>();
    case DType::float8_e4m3fnuz:
      return float_values<kFloat8E4M3Fnuz>();
    case DType::float8_e5m2fnuz:
      return float_values<kFloat8E5M2Fnuz>();
    case DType::float8_e8m0:
      return {1, -127, binary64::power_of_two(127), false, false, false, false, true};
    case DType::float6_e2m3:
      return float_values<kFloat6E2M3>();
    case DType::float6_e3m2:
      return float_values<kFloat6E3M2>();
    case DType::float4:
      return float_values<kFloat4>();
  }
  return {};
}

}  // namespace

bool is_widening(DType from, DType to) noexcept {
  if (!is_valid(from) || !is_valid(to)) {
    return false;
  }
  if (from == to) {
    return true;
  }
  if (is_complex(from)) {
    return from == DType::complex64 && to == DType::complex128;
  }
  const Values source = values_of(from);
  const Values target = values_of(to);
  const bool fits = source.digits <= target.digits && source.min_exponent >= target.min_exponent &&
                    source.largest <= target.largest;
  const bool has_specials =
      (target.is_signed || !source.is_signed) && (target.has_zero || !source.has_zero) &&
      (target.has_negative_zero || !source.has_negative_zero) &&
      (target.has_infinity || !source.has_infinity) && (target.has_nan || !source.has_nan);
  return fits && has_specials;
}

}  // namespace cairn
