// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/ieee_arithmetic.hpp"
#include "cairn/handlers/tree.hpp"

#include "containers.hpp"

namespace cairn::detail {
namespace {

using Wide = __int128;  // Ticks times a number of a period.
using Limits = std::numeric_limits<std::int64_t>;

/// Up to here every integer is a double.
constexpr double kMostExact = 9007199254740992.0;

/// One period in another: both numbers are positive, and have no common divisor.
struct Ratio {
  Wide num;
  Wide den;
};

std::intmax_t positive_number(const Tree& leaf, std::string_view path) {
  const auto number = leaf.as<std::int64_t>(path);
  if (number <= 0) {
    throw Error(Errc::type_mismatch,
                fmt::format("{} is not a duration: its period has a number {}", shown(path), number));
  }
  return number;
}

Ratio ratio_of(TickPeriod stored, TickPeriod wanted) {
  const auto num = std::gcd(stored.num, wanted.num);
  const auto den = std::gcd(stored.den, wanted.den);
  const Ratio ratio{Wide{stored.num / num} * (wanted.den / den), Wide{stored.den / den} * (wanted.num / num)};
  Wide divisor = ratio.num;  // The four may have more in common than pairs of them.
  for (Wide rest = ratio.den; rest != 0;) {
    const Wide next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  return {ratio.num / divisor, ratio.den / divisor};
}

/// The quotient of a float and an integer; nothing when it is not exactly a float. Called under an IeeeArithmetic.
std::optional<double> exact_quotient(double product, Wide divisor) {
  const double by = IeeeArithmetic::in_order(static_cast<double>(divisor));
  const double quotient = IeeeArithmetic::in_order(IeeeArithmetic::in_order(product) / by);
  const bool is_exact =
      IeeeArithmetic::in_order(static_cast<Wide>(by) == divisor && std::fma(quotient, by, -product) == 0);
  return is_exact ? std::optional(quotient) : std::nullopt;
}

/// Nothing when the ticks would be rounded.
std::optional<Tree> exact_ticks(double ticks, Ratio ratio) {
  if (!std::isfinite(ticks)) {
    return ticks;
  }
  const double factor = IeeeArithmetic::in_order(static_cast<double>(ratio.num));
  const double product = IeeeArithmetic::in_order(IeeeArithmetic::in_order(ticks) * factor);
  const bool is_exact = IeeeArithmetic::in_order(static_cast<Wide>(factor) == ratio.num &&
                                                 std::fma(ticks, factor, -product) == 0);
  if (!is_exact) {
    return std::nullopt;
  }
  const std::optional<double> quotient = exact_quotient(product, ratio.den);
  return quotient ? std::optional<Tree>(*quotient) : std::nullopt;
}

std::optional<Tree> exact_ticks(Wide ticks, Ratio ratio, bool is_floating) {
  Wide product = 0;
  if (__builtin_mul_overflow(ticks, ratio.num, &product)) {
    return std::nullopt;
  }
  if (product % ratio.den == 0 && product / ratio.den >= Limits::min() &&
      product / ratio.den <= Limits::max()) {
    return static_cast<std::int64_t>(product / ratio.den);
  }
  const auto rounded = static_cast<double>(product);
  if (is_floating && std::abs(rounded) <= kMostExact) {
    const std::optional<double> quotient = exact_quotient(rounded, ratio.den);
    return quotient ? std::optional<Tree>(*quotient) : std::nullopt;
  }
  return std::nullopt;
}

/// Cut off as integers, and saturated.
Tree rounded_ticks(Wide ticks, Ratio ratio) {
  Wide product = 0;
  if (__builtin_mul_overflow(ticks, ratio.num, &product)) {
    return ticks < 0 ? Limits::min() : Limits::max();
  }
  return static_cast<std::int64_t>(std::clamp<Wide>(product / ratio.den, Limits::min(), Limits::max()));
}

}  // namespace

Tree ticks_of(const Tree& stored, TickPeriod wanted, bool is_floating, std::string_view path,
              Narrowing narrowing) {
  check_list(stored, 3, path);
  const TickPeriod period{positive_number(stored[1], path), positive_number(stored[2], path)};
  const Ratio ratio = ratio_of(period, wanted);
  const Tree& ticks = stored[0];
  if (ratio.num == 1 && ratio.den == 1) {
    return ticks;
  }
  const IeeeArithmetic arithmetic;
  const bool is_integer = ticks.is_integer();
  const auto large = ticks.large_integer();
  const Wide whole = large ? Wide{*large} : Wide{is_integer ? ticks.as<std::int64_t>() : 0};
  const double number = ticks.as<double>(path, Narrowing::allowed);
  if (const auto exact = is_integer ? exact_ticks(whole, ratio, is_floating) : exact_ticks(number, ratio)) {
    return *exact;
  }
  if (narrowing == Narrowing::refused) {
    throw Error(Errc::unsafe_cast,
                fmt::format("{}: {} ticks of {}/{} s are not a number of ticks of {}/{} s; "
                            "Narrowing::allowed rounds them",
                            shown(path), number, period.num, period.den, wanted.num, wanted.den));
  }
  return is_floating || !is_integer
             ? Tree(IeeeArithmetic::in_order(IeeeArithmetic::in_order(number) *
                                             static_cast<double>(ratio.num) / static_cast<double>(ratio.den)))
             : rounded_ticks(whole, ratio);
}

}  // namespace cairn::detail
