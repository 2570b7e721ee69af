// SPDX-License-Identifier: Apache-2.0
#include "numbers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/ieee_arithmetic.hpp"

#include "containers.hpp"

namespace cairn::detail {
namespace {

using Number = std::variant<std::int64_t, std::uint64_t, double>;

std::string shown_node(std::string_view path) {
  return path.empty() ? "the node" : shown(path);
}

/// The element of an array of rank 0; nothing when the leaf is not one, or the element not a real number.
std::optional<Number> sole_number(const Tree& leaf) {
  const Array* array = leaf.array_if();
  if (array == nullptr || !array->shape().empty()) {
    return std::nullopt;
  }
  const auto element = [array](auto value) {
    cast_range(array->view(), dtype_of<decltype(value)>(), 0, std::as_writable_bytes(std::span(&value, 1)));
    return Number(value);
  };
  if (is_floating(array->dtype())) {
    return element(double{});  // Which holds all floats.
  }
  if (is_integer(array->dtype())) {
    return array->dtype() == DType::uint64 ? element(std::uint64_t{}) : element(std::int64_t{});
  }
  return std::nullopt;
}

/// Errors: Errc::type_mismatch when the leaf is another kind of node.
Number number_of(const Tree& leaf, std::string_view path, TreeKind wanted) {
  if (const auto* value = TreeAccess::leaf<std::int64_t>(leaf)) {
    return *value;
  }
  if (const auto* value = TreeAccess::leaf<std::uint64_t>(leaf)) {
    return *value;
  }
  if (const auto* value = TreeAccess::leaf<double>(leaf)) {
    return *value;
  }
  if (const auto number = sole_number(leaf)) {
    return *number;
  }
  throw Error(Errc::type_mismatch,
              fmt::format("{} is of kind {}, not {}", shown_node(path), name(leaf.kind()), name(wanted)));
}

std::string text_of(const Number& number) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, number);
}

/// The integer of that type next to a float, towards zero.
template <class Integer>
Integer saturated(double value) {
  using Bounds = std::numeric_limits<Integer>;
  // One more than the largest is a power of two, and so a double.
  const double end = std::ldexp(1.0, Bounds::digits);
  if (std::isnan(value)) {
    return 0;
  }
  if (value >= end) {
    return Bounds::max();
  }
  return value <= static_cast<double>(Bounds::min()) ? Bounds::min() : static_cast<Integer>(value);
}

template <class To, class From>
To saturated_integer(From value) {
  if constexpr (std::is_floating_point_v<From>) {
    return saturated<To>(value);
  } else if (std::in_range<To>(value)) {
    return static_cast<To>(value);
  } else {
    return std::cmp_less(value, 0) ? std::numeric_limits<To>::min() : std::numeric_limits<To>::max();
  }
}

/// Returns whether a number fits in so many bytes, whose limits are `least` and `most`.
template <class Wide>
Wide integer_number(const Tree& leaf, std::size_t bytes, std::string_view path, Narrowing narrowing) {
  const unsigned unused_bits = static_cast<unsigned>(sizeof(Wide) - std::min(sizeof(Wide), bytes)) * 8;
  const Wide most = static_cast<Wide>(std::numeric_limits<Wide>::max() >> unused_bits);
  const Wide least = static_cast<Wide>(std::numeric_limits<Wide>::min() >> unused_bits);
  const Number number = number_of(leaf, path, TreeKind::integer);
  if (narrowing == Narrowing::refused && std::holds_alternative<double>(number)) {
    throw Error(
        Errc::unsafe_cast,
        fmt::format("{} is {}, a floating-point number and not an integer; Narrowing::allowed truncates it",
                    shown_node(path), text_of(number)));
  }
  const Wide wide = std::visit([](auto value) { return saturated_integer<Wide>(value); }, number);
  const bool is_kept = std::visit(
      [&](auto value) {
        if constexpr (std::is_floating_point_v<decltype(value)>) {
          return true;  // Narrowing is allowed.
        } else {
          return std::in_range<Wide>(value) && wide >= least && wide <= most;
        }
      },
      number);
  if (!is_kept && narrowing == Narrowing::refused) {
    throw Error(Errc::unsafe_cast,
                fmt::format("{} is {}, which does not fit in {} integer of {} bits ({} to {}); "
                            "Narrowing::allowed saturates it",
                            shown_node(path), text_of(number),
                            std::is_signed_v<Wide> ? "a signed" : "an unsigned", bytes * 8, least, most));
  }
  return std::clamp(wide, least, most);
}

/// Returns whether an integer is a value of a float with so many binary digits.
bool is_exact(const Number& number, int digits) {
  const auto fits = [digits](std::uint64_t magnitude) {
    return magnitude == 0 ||
           static_cast<int>(std::bit_width(magnitude)) - std::countr_zero(magnitude) <= digits;
  };
  if (const auto* value = std::get_if<std::int64_t>(&number)) {
    const auto bits = static_cast<std::uint64_t>(*value);
    return fits(*value < 0 ? ~bits + 1 : bits);
  }
  return fits(std::get<std::uint64_t>(number));
}

/// A number as the nearest of a type of floats, in whatever mode the thread computes.
template <class To, class From>
To rounded(From value) noexcept {
  const IeeeArithmetic arithmetic;
  return IeeeArithmetic::in_order(static_cast<To>(IeeeArithmetic::in_order(value)));
}

template <class Float>
Float floating_number(const Tree& leaf, std::string_view path, Narrowing narrowing) {
  const Number number = number_of(leaf, path, TreeKind::floating);
  // Rounded once: by way of double a float could be rounded twice.
  const Float nearest = std::visit([](auto value) { return rounded<Float>(value); }, number);
  if (narrowing == Narrowing::allowed) {
    return nearest;
  }
  if (const auto* value = std::get_if<double>(&number)) {
    if (std::isfinite(*value) && std::isinf(nearest)) {
      throw Error(
          Errc::unsafe_cast,
          fmt::format("{} is {}, which exceeds the range of float; Narrowing::allowed makes it infinite",
                      shown_node(path), *value));
    }
  } else if (!is_exact(number, std::numeric_limits<Float>::digits)) {
    throw Error(
        Errc::unsafe_cast,
        fmt::format("{} is {}, which a {} cannot hold exactly; Narrowing::allowed rounds it",
                    shown_node(path), text_of(number), std::is_same_v<Float, float> ? "float" : "double"));
  }
  return nearest;
}

}  // namespace

bool boolean_value(const Tree& leaf, std::string_view path) {
  if (const auto* value = TreeAccess::leaf<bool>(leaf)) {
    return *value;
  }
  const Array* array = leaf.array_if();
  if (array != nullptr && array->shape().empty() && array->dtype() == DType::boolean) {
    // The byte of a file may be neither 0 nor 1, and so no bool.
    return *reinterpret_cast<const std::uint8_t*>(array->data<const bool>().data()) != 0;
  }
  throw Error(Errc::type_mismatch,
              fmt::format("{} is of kind {}, not boolean", shown_node(path), name(leaf.kind())));
}

std::int64_t signed_number(const Tree& leaf, std::size_t bytes, std::string_view path, Narrowing narrowing) {
  return integer_number<std::int64_t>(leaf, bytes, path, narrowing);
}

std::uint64_t unsigned_number(const Tree& leaf, std::size_t bytes, std::string_view path,
                              Narrowing narrowing) {
  return integer_number<std::uint64_t>(leaf, bytes, path, narrowing);
}

void read_complex(const Tree& leaf, DType dtype, std::span<std::byte> out, std::string_view path,
                  Narrowing narrowing) {
  if (const Array* array = leaf.array_if(); array != nullptr && array->shape().empty()) {
    try {
      return cast_range(array->view(), dtype, 0, out, narrowing);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", shown_node(path), error.detail()));
    }
  }
  if (leaf.kind() != TreeKind::integer && leaf.kind() != TreeKind::floating) {
    throw Error(Errc::type_mismatch,
                fmt::format("{} is of kind {}, not a complex number", shown_node(path), name(leaf.kind())));
  }
  if (dtype == DType::complex64) {
    const std::complex<float> value(float_number(leaf, path, narrowing));
    std::memcpy(out.data(), &value, sizeof value);
  } else {
    const std::complex<double> value(double_number(leaf, path, narrowing));
    std::memcpy(out.data(), &value, sizeof value);
  }
}

double widened(float value) noexcept {
  return rounded<double>(value);
}

double double_number(const Tree& leaf, std::string_view path, Narrowing narrowing) {
  return floating_number<double>(leaf, path, narrowing);
}

float float_number(const Tree& leaf, std::string_view path, Narrowing narrowing) {
  return floating_number<float>(leaf, path, narrowing);
}

Tree cast_number(const Tree& stored, TreeKind wanted, std::string_view path, Narrowing narrowing) {
  if (wanted == TreeKind::floating) {
    return double_number(stored, path, narrowing);
  }
  const auto* value = TreeAccess::leaf<double>(stored);
  if (value != nullptr && *value >= std::ldexp(1.0, std::numeric_limits<std::int64_t>::digits)) {
    return unsigned_number(stored, sizeof(std::uint64_t), path, narrowing);
  }
  return signed_number(stored, sizeof(std::int64_t), path, narrowing);
}

}  // namespace cairn::detail
