// SPDX-License-Identifier: Apache-2.0
#include "cli/elements.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <variant>

#include <fmt/format.h>

#include "array/internal/cast.hpp"

namespace cairn::cli {
namespace {

using Eight = std::array<double, 8>;  // So many fill whole bytes, also of packed types.

/// Stores eight of the nearest value of `dtype`; returns the bytes that they take.
std::span<const std::byte> stored_as(double value, DType dtype,
                                     std::array<std::byte, sizeof(Eight)>& stored) {
  Eight values{};
  values.fill(value);
  const auto used = std::span(stored).first(bits(dtype));
  cast(std::as_bytes(std::span(values)), DType::float64, used, dtype, Narrowing::allowed);
  return used;
}

/// The nearest value of `dtype`.
double rounded(double value, DType dtype) {
  std::array<std::byte, sizeof(Eight)> stored{};
  Eight values{};
  cast(stored_as(value, dtype, stored), dtype, std::as_writable_bytes(std::span(values)), DType::float64,
       Narrowing::allowed);
  return values[0];
}

template <class T>
std::string complex_text(std::complex<T> value) {
  return fmt::format("{}{:+}j", value.real(), value.imag());
}

void write_number(JsonWriter& writer, double value, const std::string& text) {
  if (std::isfinite(value)) {
    writer.raw(text);
  } else {
    writer.value(text);
  }
}

template <class T>
void write_complex(JsonWriter& writer, std::complex<T> value) {
  writer.begin_list();
  write_number(writer, value.real(), fmt::to_string(value.real()));
  write_number(writer, value.imag(), fmt::to_string(value.imag()));
  writer.end();
}

bool is_small_float(DType dtype) {
  return is_floating(dtype) && dtype != DType::float32 && dtype != DType::float64;
}

}  // namespace

Elements::Elements(std::span<const std::byte> bytes, DType dtype) : bytes_(bytes), dtype_(dtype) {
  if (is_small_float(dtype)) {
    small_.resize(bytes.size() * 8 / bits(dtype));
    cast(bytes, dtype, std::as_writable_bytes(std::span(small_)), DType::float64, Narrowing::allowed);
  }
}

template <class T>
T Elements::as(std::size_t i) const {
  T value;
  std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
  return value;
}

std::string Elements::small_float_text(double value) const {
  if (std::isfinite(value)) {
    for (int digits = 1; digits < 17; ++digits) {
      const double shorter = std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
      if (std::bit_cast<std::uint64_t>(rounded(shorter, dtype_)) == std::bit_cast<std::uint64_t>(value)) {
        return fmt::to_string(shorter);
      }
    }
  }
  return fmt::to_string(value);
}

std::string Elements::text(std::size_t i) const {
  switch (dtype_) {
    case DType::boolean:
      return as<std::uint8_t>(i) != 0 ? "true" : "false";
    case DType::uint8:
      return fmt::to_string(unsigned{as<std::uint8_t>(i)});
    case DType::uint16:
      return fmt::to_string(as<std::uint16_t>(i));
    case DType::uint32:
      return fmt::to_string(as<std::uint32_t>(i));
    case DType::uint64:
      return fmt::to_string(as<std::uint64_t>(i));
    case DType::int8:
      return fmt::to_string(int{as<std::int8_t>(i)});
    case DType::int16:
      return fmt::to_string(as<std::int16_t>(i));
    case DType::int32:
      return fmt::to_string(as<std::int32_t>(i));
    case DType::int64:
      return fmt::to_string(as<std::int64_t>(i));
    case DType::float32:
      return fmt::to_string(as<float>(i));
    case DType::float64:
      return fmt::to_string(as<double>(i));
    case DType::complex64:
      return complex_text(as<std::complex<float>>(i));
    case DType::complex128:
      return complex_text(as<std::complex<double>>(i));
    default:
      return small_float_text(small_[i]);
  }
}

std::string number_text(const std::optional<ArrayStatistics::Number>& number, DType dtype) {
  if (!number) {
    return "";
  }
  if (const auto* integer = std::get_if<std::int64_t>(&*number)) {
    return fmt::to_string(*integer);
  }
  if (const auto* integer = std::get_if<std::uint64_t>(&*number)) {
    return fmt::to_string(*integer);
  }
  std::array<std::byte, sizeof(Eight)> stored{};
  return Elements(stored_as(std::get<double>(*number), dtype, stored), dtype).text(0);
}

void Elements::write(JsonWriter& writer, std::size_t i) const {
  if (dtype_ == DType::complex64) {
    write_complex(writer, as<std::complex<float>>(i));
  } else if (dtype_ == DType::complex128) {
    write_complex(writer, as<std::complex<double>>(i));
  } else if (dtype_ == DType::float32) {
    write_number(writer, as<float>(i), text(i));
  } else if (dtype_ == DType::float64) {
    write_number(writer, as<double>(i), text(i));
  } else {
    write_number(writer, small_.empty() ? 0 : small_[i], text(i));
  }
}

}  // namespace cairn::cli
