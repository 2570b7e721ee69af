// SPDX-License-Identifier: Apache-2.0
#include "array/internal/cast.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/ieee_arithmetic.hpp"

#include "array/float_format.hpp"
#include "array/float_loops.hpp"

namespace cairn {
namespace {

// Elements between two types take the way over binary64 in blocks of this many. A multiple of 4, so that the
// blocks of packed types begin at whole bytes.
constexpr std::size_t kBlock = 512;

template <class T>
T load(const std::byte* in, std::size_t index) {
  T value;
  std::memcpy(&value, in + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* out, std::size_t index, T value) {
  std::memcpy(out + index * sizeof(T), &value, sizeof(T));
}

// Without the promise that they do not overlap, the loops would not be vectorised.
template <class From, class To, class Convert>
void transform(const std::byte* __restrict in, std::byte* __restrict out, std::size_t count,
               Convert convert) {
  for (std::size_t index = 0; index < count; ++index) {
    store<To>(out, index, convert(load<From>(in, index)));
  }
}

// The double next to `value` whose last bit is odd when it is not exact ("round to odd"): rounding it again,
// to any type of at most 51 digits, gives what rounding `value` once would have given.
template <class T>
double to_odd_double(T value) {
  if constexpr (sizeof(T) < 8) {
    return static_cast<double>(value);
  } else {
    const bool is_negative = value < 0;
    std::uint64_t magnitude = static_cast<std::uint64_t>(value);
    magnitude = is_negative ? 0 - magnitude : magnitude;
    const int excess = 64 - 53 - std::countl_zero(magnitude);
    if (excess > 0) {
      const std::uint64_t lost = magnitude & ((std::uint64_t{1} << excess) - 1);
      magnitude = (magnitude - lost) | (lost != 0 ? std::uint64_t{1} << excess : 0);
    }
    const auto result = static_cast<double>(magnitude);
    return is_negative ? -result : result;
  }
}

template <class T>
T saturate(double value) {
  constexpr double kEnd = binary64::power_of_two(std::numeric_limits<T>::digits);  // One past the largest.
  if (!(value > static_cast<double>(std::numeric_limits<T>::min()))) {
    return value != value ? T{0} : std::numeric_limits<T>::min();
  }
  return value >= kEnd ? std::numeric_limits<T>::max() : static_cast<T>(value);
}

template <class T>
void decode_integers(const std::byte* in, std::size_t count, double* out) {
  for (std::size_t index = 0; index < count; ++index) {
    out[index] = to_odd_double(load<T>(in, index));
  }
}

template <class T>
void encode_integers(const double* in, std::size_t count, std::byte* out) {
  for (std::size_t index = 0; index < count; ++index) {
    store<T>(out, index, saturate<T>(in[index]));
  }
}

template <FloatFormat kFormat>
void decode_bytes(const std::byte* in, std::size_t count, double* out) {
  static constexpr auto kTable = decode_table<kFormat>();
  for (std::size_t index = 0; index < count; ++index) {
    out[index] = kTable[std::to_integer<std::size_t>(in[index])];
  }
}

template <FloatFormat kFormat, class Pattern>
void encode_floats(const double* in, std::size_t count, std::byte* out) {
  for (std::size_t index = 0; index < count; ++index) {
    store(out, index, static_cast<Pattern>(encode<kFormat>(in[index])));
  }
}

// `count` is a multiple of 4, or the elements end with a whole byte.
template <FloatFormat kFormat>
void decode_packed(const std::byte* in, std::size_t count, double* out) {
  static constexpr auto kTable = decode_table<kFormat>();
  constexpr unsigned kBits = kFormat.magnitude_bits() + 1;
  std::uint32_t held = 0;
  unsigned held_bits = 0;
  for (std::size_t index = 0; index < count; ++index) {
    if (held_bits < kBits) {
      held |= std::to_integer<std::uint32_t>(*in++) << held_bits;
      held_bits += 8;
    }
    out[index] = kTable[held & ((1u << kBits) - 1)];
    held >>= kBits;
    held_bits -= kBits;
  }
}

template <FloatFormat kFormat>
void encode_packed(const double* in, std::size_t count, std::byte* out) {
  constexpr unsigned kBits = kFormat.magnitude_bits() + 1;
  std::uint32_t held = 0;
  unsigned held_bits = 0;
  for (std::size_t index = 0; index < count; ++index) {
    held |= encode<kFormat>(in[index]) << held_bits;
    held_bits += kBits;
    if (held_bits >= 8) {
      *out++ = static_cast<std::byte>(held & 0xffu);
      held >>= 8;
      held_bits -= 8;
    }
  }
}

template <class Pattern, class Convert>
void decode_with(const std::byte* in, std::size_t count, double* out, Convert convert) {
  for (std::size_t index = 0; index < count; ++index) {
    out[index] = convert(load<Pattern>(in, index));
  }
}

template <class Pattern, class Convert>
void encode_with(const double* in, std::size_t count, std::byte* out, Convert convert) {
  for (std::size_t index = 0; index < count; ++index) {
    store<Pattern>(out, index, convert(in[index]));
  }
}

void decode_block(DType dtype, const std::byte* in, std::size_t count, double* out) {
  switch (dtype) {
    case DType::boolean:
      return decode_with<std::uint8_t>(in, count, out,
                                       [](std::uint8_t byte) { return byte != 0 ? 1.0 : 0.0; });
    case DType::uint8:
      return decode_integers<std::uint8_t>(in, count, out);
    case DType::uint16:
      return decode_integers<std::uint16_t>(in, count, out);
    case DType::uint32:
      return decode_integers<std::uint32_t>(in, count, out);
    case DType::uint64:
      return decode_integers<std::uint64_t>(in, count, out);
    case DType::int8:
      return decode_integers<std::int8_t>(in, count, out);
    case DType::int16:
      return decode_integers<std::int16_t>(in, count, out);
    case DType::int32:
      return decode_integers<std::int32_t>(in, count, out);
    case DType::int64:
      return decode_integers<std::int64_t>(in, count, out);
    case DType::float16:
      return decode_with<std::uint16_t>(in, count, out, float16_to_float);
    case DType::bfloat16:
      return decode_with<std::uint16_t>(in, count, out, bfloat16_to_float);
    case DType::float32:
      return decode_with<float>(in, count, out, [](float value) { return double{value}; });
    case DType::float64:
      return decode_with<double>(in, count, out, [](double value) { return value; });
    case DType::complex64:
    case DType::complex128:
      break;  // `cast` refuses them, or has cast them directly.
    case DType::float8_e4m3:
      return decode_bytes<kFloat8E4M3>(in, count, out);
    case DType::float8_e5m2:
      return decode_bytes<kFloat8E5M2>(in, count, out);
    case DType::float8_e4m3fnuz:
      return decode_bytes<kFloat8E4M3Fnuz>(in, count, out);
    case DType::float8_e5m2fnuz:
      return decode_bytes<kFloat8E5M2Fnuz>(in, count, out);
    case DType::float8_e8m0:
      return decode_with<std::uint8_t>(in, count, out, decode_e8m0);
    case DType::float6_e2m3:
      return decode_packed<kFloat6E2M3>(in, count, out);
    case DType::float6_e3m2:
      return decode_packed<kFloat6E3M2>(in, count, out);
    case DType::float4:
      return decode_packed<kFloat4>(in, count, out);
  }
}

void encode_block(DType dtype, const double* in, std::size_t count, std::byte* out) {
  switch (dtype) {
    case DType::boolean:
      return encode_with<std::uint8_t>(in, count, out, [](double value) { return std::uint8_t{value != 0}; });
    case DType::uint8:
      return encode_integers<std::uint8_t>(in, count, out);
    case DType::uint16:
      return encode_integers<std::uint16_t>(in, count, out);
    case DType::uint32:
      return encode_integers<std::uint32_t>(in, count, out);
    case DType::uint64:
      return encode_integers<std::uint64_t>(in, count, out);
    case DType::int8:
      return encode_integers<std::int8_t>(in, count, out);
    case DType::int16:
      return encode_integers<std::int16_t>(in, count, out);
    case DType::int32:
      return encode_integers<std::int32_t>(in, count, out);
    case DType::int64:
      return encode_integers<std::int64_t>(in, count, out);
    case DType::float16:
      return encode_floats<kFloat16, std::uint16_t>(in, count, out);
    case DType::bfloat16:
      return encode_floats<kBFloat16, std::uint16_t>(in, count, out);
    case DType::float32:
      return encode_with<float>(in, count, out, [](double value) { return static_cast<float>(value); });
    case DType::float64:
      return encode_with<double>(in, count, out, [](double value) { return value; });
    case DType::complex64:
      return encode_with<std::array<float, 2>>(in, count, out, [](double value) {
        return std::array<float, 2>{static_cast<float>(value), 0};
      });
    case DType::complex128:
      return encode_with<std::array<double, 2>>(in, count, out, [](double value) {
        return std::array<double, 2>{value, 0};
      });
    case DType::float8_e4m3:
      return encode_floats<kFloat8E4M3, std::uint8_t>(in, count, out);
    case DType::float8_e5m2:
      return encode_floats<kFloat8E5M2, std::uint8_t>(in, count, out);
    case DType::float8_e4m3fnuz:
      return encode_floats<kFloat8E4M3Fnuz, std::uint8_t>(in, count, out);
    case DType::float8_e5m2fnuz:
      return encode_floats<kFloat8E5M2Fnuz, std::uint8_t>(in, count, out);
    case DType::float8_e8m0:
      return encode_with<std::uint8_t>(in, count, out, encode_e8m0);
    case DType::float6_e2m3:
      return encode_packed<kFloat6E2M3>(in, count, out);
    case DType::float6_e3m2:
      return encode_packed<kFloat6E3M2>(in, count, out);
    case DType::float4:
      return encode_packed<kFloat4>(in, count, out);
  }
}

void cast_in_blocks(const std::byte* in, DType from, std::byte* out, DType to, std::size_t count) {
  std::array<double, kBlock> block;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    decode_block(from, in + begin * bits(from) / 8, size, block.data());
    encode_block(to, block.data(), size, out + begin * bits(to) / 8);
  }
}

template <class From, class To>
To saturate_integer(From value) {
  using Limits = std::numeric_limits<To>;
  if (std::cmp_less(value, Limits::min())) {
    return Limits::min();
  }
  return std::cmp_greater(value, Limits::max()) ? Limits::max() : static_cast<To>(value);
}

template <class From>
void cast_integers(const std::byte* in, std::byte* out, DType to, std::size_t count) {
  const auto run = [&]<class To>(To) { transform<From, To>(in, out, count, saturate_integer<From, To>); };
  switch (to) {
    case DType::uint8:
      return run(std::uint8_t{});
    case DType::uint16:
      return run(std::uint16_t{});
    case DType::uint32:
      return run(std::uint32_t{});
    case DType::uint64:
      return run(std::uint64_t{});
    case DType::int8:
      return run(std::int8_t{});
    case DType::int16:
      return run(std::int16_t{});
    case DType::int32:
      return run(std::int32_t{});
    case DType::int64:
      return run(std::int64_t{});
    case DType::float64:  // Rounds once, which the way over `to_odd_double` would not.
      return transform<From, double>(in, out, count, [](From value) { return static_cast<double>(value); });
    case DType::complex128:
      return transform<From, std::array<double, 2>>(in, out, count, [](From value) {
        return std::array<double, 2>{static_cast<double>(value), 0};
      });
    default:
      return;
  }
}

void cast_integers(const std::byte* in, DType from, std::byte* out, DType to, std::size_t count) {
  switch (from) {
    case DType::uint8:
      return cast_integers<std::uint8_t>(in, out, to, count);
    case DType::uint16:
      return cast_integers<std::uint16_t>(in, out, to, count);
    case DType::uint32:
      return cast_integers<std::uint32_t>(in, out, to, count);
    case DType::uint64:
      return cast_integers<std::uint64_t>(in, out, to, count);
    case DType::int8:
      return cast_integers<std::int8_t>(in, out, to, count);
    case DType::int16:
      return cast_integers<std::int16_t>(in, out, to, count);
    case DType::int32:
      return cast_integers<std::int32_t>(in, out, to, count);
    case DType::int64:
      return cast_integers<std::int64_t>(in, out, to, count);
    default:
      return;
  }
}

// The casts that models do most, in one step. Returns whether it was one of them.
bool cast_directly(const std::byte* in, DType from, std::byte* out, DType to, std::size_t count) {
  const auto is = [&](DType a, DType b) { return from == a && to == b; };
  if (is(DType::bfloat16, DType::float32)) {
    transform<std::uint16_t, float>(in, out, count,
                                    [](std::uint16_t half) { return bfloat16_to_float(half); });
  } else if (is(DType::float32, DType::bfloat16)) {
    transform<float, std::uint16_t>(in, out, count, [](float value) { return float_to_bfloat16(value); });
  } else if (is(DType::float16, DType::float32)) {
    transform<std::uint16_t, float>(in, out, count,
                                    [](std::uint16_t half) { return float16_to_float(half); });
  } else if (is(DType::float32, DType::float16)) {
    transform<float, std::uint16_t>(in, out, count, [](float value) { return float_to_float16(value); });
  } else if (is(DType::float32, DType::float64)) {
    transform<float, double>(in, out, count, [](float value) { return double{value}; });
  } else if (is(DType::float64, DType::float32)) {
    transform<double, float>(in, out, count, [](double value) { return static_cast<float>(value); });
  } else if (is(DType::complex64, DType::complex128)) {  // Both parts of each.
    transform<float, double>(in, out, 2 * count, [](float value) { return double{value}; });
  } else if (is(DType::complex128, DType::complex64)) {
    transform<double, float>(in, out, 2 * count, [](double value) { return static_cast<float>(value); });
  } else {
    return false;
  }
  return true;
}

void check_cast(DType from, DType to, Narrowing narrowing) {
  if (!is_valid(from) || !is_valid(to)) {
    throw Error(Errc::invalid_argument,
                fmt::format("cannot cast dtype {} to dtype {}: one of them is unknown",
                            static_cast<int>(from), static_cast<int>(to)));
  }
  if (is_complex(from) && !is_complex(to)) {
    throw Error(Errc::unsafe_cast, fmt::format("{} to {} drops the imaginary parts", name(from), name(to)));
  }
  if (narrowing == Narrowing::refused && !is_widening(from, to)) {
    throw Error(
        Errc::unsafe_cast,
        fmt::format(
            "{} to {} can change values; Narrowing::allowed permits it, in loads also allow_narrowing",
            name(from), name(to)));
  }
}

}  // namespace

void cast(std::span<const std::byte> in, DType from, std::span<std::byte> out, DType to,
          Narrowing narrowing) {
  check_cast(from, to, narrowing);
  const std::size_t count = in.size() * 8 / bits(from);
  const bool is_whole = in.size() * 8 % bits(from) == 0 && out.size() * 8 % bits(to) == 0;
  if (!is_whole || out.size() * 8 / bits(to) != count) {
    throw Error(Errc::invalid_argument, fmt::format("cannot cast {} bytes of {} to {} bytes of {}", in.size(),
                                                    name(from), out.size(), name(to)));
  }
  if (count == 0) {
    return;
  }
  if (from == to) {
    std::memcpy(out.data(), in.data(), in.size());
    return;
  }
  const IeeeArithmetic arithmetic;
  if (is_integer(from) && (is_integer(to) || to == DType::float64 || to == DType::complex128)) {
    cast_integers(in.data(), from, out.data(), to, count);
  } else if (!cast_directly(in.data(), from, out.data(), to, count)) {
    cast_in_blocks(in.data(), from, out.data(), to, count);
  }
}

}  // namespace cairn
