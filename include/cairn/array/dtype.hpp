// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>
#include <type_traits>

namespace cairn {

// Array bytes go to disk as they lie in memory, and every format that we read and write is little-endian.
static_assert(std::endian::native == std::endian::little, "Cairn needs a little-endian host");

/// The type of an array's elements.
///
/// The numbers are stored on disk: never change or reuse one, add new ones at the end. Packed types hold
/// several elements in a byte: element i is the bits [i * bits, (i + 1) * bits) of the bytes read as one
/// little-endian number.
enum class DType : std::uint8_t {
  boolean = 1,  ///< One byte, 0 or 1.
  uint8 = 2,
  uint16 = 3,
  uint32 = 4,
  uint64 = 5,
  int8 = 6,
  int16 = 7,
  int32 = 8,
  int64 = 9,
  float16 = 10,   ///< IEEE 754 binary16.
  bfloat16 = 11,  ///< The upper half of a binary32.
  float32 = 12,
  float64 = 13,
  complex64 = 14,        ///< Two float32: real, imaginary.
  float8_e4m3 = 15,      ///< OCP E4M3 ("fn"): no infinity, NaN is S.1111.111.
  float8_e5m2 = 16,      ///< OCP E5M2: with infinities, as IEEE 754 would have it.
  float8_e4m3fnuz = 17,  ///< Bias 8; no infinity, no negative zero, NaN is 0x80.
  float8_e5m2fnuz = 18,  ///< Bias 16; no infinity, no negative zero, NaN is 0x80.
  float8_e8m0 = 19,      ///< A power of two from 2^-127 to 2^127, or NaN: no sign, no zero.
  float6_e2m3 = 20,      ///< OCP MX, packed, finite values only.
  float6_e3m2 = 21,      ///< OCP MX, packed, finite values only.
  float4 = 22,           ///< OCP MX E2M1, packed, finite values only.
  complex128 = 23,       ///< Two float64: real, imaginary.
};

/// Says whether a cast may change values.
enum class Narrowing : std::uint8_t {
  refused,  ///< Only casts that keep every value.
  allowed,  ///< Values may be rounded, saturated or become NaN, as `cast` states.
};

inline constexpr DType kFirstDType = DType::boolean;
inline constexpr DType kLastDType = DType::complex128;

/// The largest element, complex128, has so many bytes.
inline constexpr std::size_t kMaxElementBytes = 16;

/// Returns whether `dtype` is one of the enumerators; a number that was read from a file may be none.
[[nodiscard]] constexpr bool is_valid(DType dtype) noexcept {
  return dtype >= kFirstDType && dtype <= kLastDType;
}

/// The name that safetensors gives the type: "BOOL", "U8", "F32", "BF16", "F8_E4M3"…; "C128" for complex128, which that
/// format lacks; "?" for none of the types.
[[nodiscard]] std::string_view name(DType dtype) noexcept;

/// The type with that name, or nothing. Case matters.
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name) noexcept;

/// The size of one element in bits; 0 for none of the types.
[[nodiscard]] unsigned bits(DType dtype) noexcept;

/// Returns whether several elements share a byte (float4 and the 6-bit types).
[[nodiscard]] bool is_packed(DType dtype) noexcept;

/// Returns whether the type is a real floating-point type, of any width.
[[nodiscard]] bool is_floating(DType dtype) noexcept;

/// Returns whether the type is an integer type, signed or not. A boolean is none.
[[nodiscard]] bool is_integer(DType dtype) noexcept;

[[nodiscard]] constexpr bool is_complex(DType dtype) noexcept {
  return dtype == DType::complex64 || dtype == DType::complex128;
}

/// Bit patterns of the types that C++20 lacks: they give spans and vectors a dtype. `cast` converts them.
struct Float16 {
  std::uint16_t bits = 0;
  bool operator==(const Float16&) const = default;
};

struct BFloat16 {
  std::uint16_t bits = 0;
  bool operator==(const BFloat16&) const = default;
};

struct Float8E4M3 {
  std::uint8_t bits = 0;
  bool operator==(const Float8E4M3&) const = default;
};

struct Float8E5M2 {
  std::uint8_t bits = 0;
  bool operator==(const Float8E5M2&) const = default;
};

namespace detail {

// Integers go by size and sign, so that `long` and `long long` both are int64. Character types are text, not
// numbers.
template <class T>
consteval DType integer_dtype() {
  constexpr bool is_signed = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1:
      return is_signed ? DType::int8 : DType::uint8;
    case 2:
      return is_signed ? DType::int16 : DType::uint16;
    case 4:
      return is_signed ? DType::int32 : DType::uint32;
    case 8:
      return is_signed ? DType::int64 : DType::uint64;
    default:
      return DType{};
  }
}

template <class T>
concept Character = std::same_as<T, char> || std::same_as<T, wchar_t> || std::same_as<T, char8_t> ||
    std::same_as<T, char16_t> || std::same_as<T, char32_t>;

template <class T>
inline constexpr DType dtype_of_v{};
template <>
inline constexpr DType dtype_of_v<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of_v<std::byte> = DType::uint8;
template <>
inline constexpr DType dtype_of_v<Float16> = DType::float16;
template <>
inline constexpr DType dtype_of_v<BFloat16> = DType::bfloat16;
template <>
inline constexpr DType dtype_of_v<float> = DType::float32;
template <>
inline constexpr DType dtype_of_v<double> = DType::float64;
template <>
inline constexpr DType dtype_of_v<std::complex<float>> = DType::complex64;
template <>
inline constexpr DType dtype_of_v<std::complex<double>> = DType::complex128;
template <>
inline constexpr DType dtype_of_v<Float8E4M3> = DType::float8_e4m3;
template <>
inline constexpr DType dtype_of_v<Float8E5M2> = DType::float8_e5m2;
template <std::integral T>
requires(!std::same_as<T, bool> && !Character<T>) inline constexpr DType dtype_of_v<T> = integer_dtype<T>();

}  // namespace detail

/// A C++ type, const or not, that is the element of some array.
template <class T>
concept ArrayElement = is_valid(detail::dtype_of_v<std::remove_const_t<T>>);

/// The dtype of the C++ type `T`; std::byte counts as uint8.
template <ArrayElement T>
[[nodiscard]] constexpr DType dtype_of() noexcept {
  return detail::dtype_of_v<std::remove_const_t<T>>;
}

std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace cairn
