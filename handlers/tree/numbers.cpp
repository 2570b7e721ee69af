// SPDX-License-Identifier: Apache-2.0
#include "numbers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "containers.hpp"

namespace cairn::detail {
namespace {

using Number = std::variant<std::int64_t, std::uint64_t, double>;

std::string shown_node(std::string_view path) {
  return path.empty() ? "the node" : shown(path);
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
  throw Error(Errc::type_mismatch,
              fmt::format("{} is of kind {}, not {}", shown_node(path), name(leaf.kind()), name(wanted)));
}

std::string text_of(const Number& number) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, number);
}

/// The integer of that type next to a float, towards zero.
template <class Integer>
Integer saturated(double value) {
  using Limits = std::numeric_limits<Integer>;
  // One more than the largest is a power of two, and so a double.
  const double end = std::ldexp(1.0, Limits::digits);
  if (std::isnan(value)) {
    return 0;
  }
  if (value >= end) {
    return Limits::max();
  }
  return value <= static_cast<double>(Limits::min()) ? Limits::min() : static_cast<Integer>(value);
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

/// Of so many bytes, whose limits are `least` and `most`.
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

/// Whether an integer is a value of a float with so many binary digits.
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

}  // namespace

std::int64_t signed_number(const Tree& leaf, std::size_t bytes, std::string_view path, Narrowing narrowing) {
  return integer_number<std::int64_t>(leaf, bytes, path, narrowing);
}

std::uint64_t unsigned_number(const Tree& leaf, std::size_t bytes, std::string_view path,
                              Narrowing narrowing) {
  return integer_number<std::uint64_t>(leaf, bytes, path, narrowing);
}

double floating_number(const Tree& leaf, std::size_t bytes, std::string_view path, Narrowing narrowing) {
  const bool is_float = bytes == sizeof(float);
  const Number number = number_of(leaf, path, TreeKind::floating);
  if (const auto* value = std::get_if<double>(&number)) {
    const bool exceeds = is_float && std::isfinite(*value) && std::isinf(static_cast<float>(*value));
    if (exceeds && narrowing == Narrowing::refused) {
      throw Error(
          Errc::unsafe_cast,
          fmt::format("{} is {}, which exceeds the range of float; Narrowing::allowed makes it infinite",
                      shown_node(path), *value));
    }
    return *value;
  }
  const int digits = is_float ? std::numeric_limits<float>::digits : std::numeric_limits<double>::digits;
  if (narrowing == Narrowing::refused && !is_exact(number, digits)) {
    throw Error(Errc::unsafe_cast,
                fmt::format("{} is {}, which a {} cannot hold exactly; Narrowing::allowed rounds it",
                            shown_node(path), text_of(number), is_float ? "float" : "double"));
  }
  // Rounded once: by way of double a float could be rounded twice.
  return std::visit(
      [&](auto value) { return is_float ? double{static_cast<float>(value)} : static_cast<double>(value); },
      number);
}

Tree cast_number(const Tree& stored, TreeKind wanted, std::string_view path, Narrowing narrowing) {
  if (wanted == TreeKind::floating) {
    return floating_number(stored, sizeof(double), path, narrowing);
  }
  const auto* value = TreeAccess::leaf<double>(stored);
  if (value != nullptr && *value >= std::ldexp(1.0, std::numeric_limits<std::int64_t>::digits)) {
    return unsigned_number(stored, sizeof(std::uint64_t), path, narrowing);
  }
  return signed_number(stored, sizeof(std::int64_t), path, narrowing);
}

}  // namespace cairn::detail
