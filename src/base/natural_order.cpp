// SPDX-License-Identifier: Apache-2.0
#include "base/internal/natural_order.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>

namespace cairn {
namespace {

bool is_decimal_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// Returns the digits at the front of `text`, and takes them from it.
std::string_view take_digits(std::string_view& text) noexcept {
  const auto end = std::find_if_not(text.begin(), text.end(), is_decimal_digit);
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

void drop_leading_zeros(std::string_view& digits) noexcept {
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
}

/// Takes the digits at the front of `text`, without leading zeros.
std::string_view take_number(std::string_view& text) noexcept {
  std::string_view digits = take_digits(text);
  drop_leading_zeros(digits);
  return digits;
}

bool starts_with_digit(std::string_view text) noexcept {
  return !text.empty() && is_decimal_digit(text.front());
}

/// A decimal number as it is written: ±`whole`.`fraction` × 10^`exponent`.
class Decimal {
 public:
  /// Takes the number at the front of `text`, or nothing where there is none. At the start of a name it may have a
  /// sign, and nothing before its point.
  static std::optional<Decimal> take(std::string_view& text, bool is_start) noexcept {
    std::string_view rest = text;
    Decimal number;
    if (is_start && !rest.empty() && (rest.front() == '-' || rest.front() == '+')) {
      number.is_negative_ = rest.front() == '-';
      rest.remove_prefix(1);
    }
    const bool is_fraction_alone = is_start && rest.size() > 1 && rest[0] == '.' && is_decimal_digit(rest[1]);
    if (!starts_with_digit(rest) && !is_fraction_alone) {
      return std::nullopt;
    }
    number.whole_ = take_number(rest);
    if (rest.size() > 1 && rest.front() == '.' && is_decimal_digit(rest[1])) {
      rest.remove_prefix(1);
      number.fraction_ = take_digits(rest);
      number.fraction_ = number.fraction_.substr(0, number.fraction_.find_last_not_of('0') + 1);
    }
    number.take_exponent(rest);
    text = rest;
    return number;
  }

  friend bool operator==(const Decimal& a, const Decimal& b) noexcept { return !(a < b) && !(b < a); }
  friend bool operator<(const Decimal& a, const Decimal& b) noexcept {
    if (a.is_zero() || b.is_zero() || a.is_negative_ != b.is_negative_) {
      return a.sign() < b.sign();
    }
    return a.is_negative_ ? b.is_smaller_than(a) : a.is_smaller_than(b);
  }

 private:
  void take_exponent(std::string_view& text) noexcept {
    std::string_view rest = text;
    if (rest.empty() || (rest.front() != 'e' && rest.front() != 'E')) {
      return;
    }
    rest.remove_prefix(1);
    const bool is_negative = !rest.empty() && rest.front() == '-';
    if (is_negative || (!rest.empty() && rest.front() == '+')) {
      rest.remove_prefix(1);
    }
    if (!starts_with_digit(rest)) {
      return;
    }
    for (const char digit : take_digits(rest)) {
      exponent_ = std::min<std::int64_t>(exponent_ * 10 + (digit - '0'), kMostExponent);
    }
    exponent_ = is_negative ? -exponent_ : exponent_;
    text = rest;
  }

  [[nodiscard]] bool is_zero() const noexcept {
    return whole_.empty() && fraction_.find_first_not_of('0') == std::string_view::npos;
  }
  [[nodiscard]] int sign() const noexcept { return is_zero() ? 0 : is_negative_ ? -1 : 1; }
  /// The place of the first digit that is not 0: 1 for those from 1 to 9, 0 for those from 0.1 to 0.9.
  [[nodiscard]] std::int64_t magnitude() const noexcept {
    return exponent_ + (whole_.empty() ? -static_cast<std::int64_t>(fraction_.find_first_not_of('0'))
                                       : static_cast<std::int64_t>(whole_.size()));
  }
  /// The digit at a place behind the first that is not 0; 0 behind the last.
  [[nodiscard]] char digit(std::size_t place) const noexcept {
    if (place < whole_.size()) {
      return whole_[place];
    }
    place += whole_.empty() ? fraction_.find_first_not_of('0') : 0;
    place -= whole_.size();
    return place < fraction_.size() ? fraction_[place] : '0';
  }
  /// Without their signs; neither is 0.
  [[nodiscard]] bool is_smaller_than(const Decimal& other) const noexcept {
    if (magnitude() != other.magnitude()) {
      return magnitude() < other.magnitude();
    }
    const std::size_t places =
        std::max(whole_.size() + fraction_.size(), other.whole_.size() + other.fraction_.size());
    for (std::size_t place = 0; place < places; ++place) {
      if (digit(place) != other.digit(place)) {
        return digit(place) < other.digit(place);
      }
    }
    return false;
  }

  static constexpr std::int64_t kMostExponent = 1'000'000'000;  // A name has far fewer digits.

  bool is_negative_ = false;
  std::string_view whole_;     // Without leading zeros.
  std::string_view fraction_;  // Without trailing zeros.
  std::int64_t exponent_ = 0;
};

/// The outcome of comparing two names where they first differ.
enum class First : std::uint8_t { less, greater, neither };

template <class Number>
First first_of(const Number& a, const Number& b) noexcept {
  return a < b ? First::less : b < a ? First::greater : First::neither;
}

/// Compares character by character, but numbers as `take_both` does: it takes them from the front of both, where both
/// have one, and returns how they compare.
template <class TakeBoth>
bool is_less(std::string_view a, std::string_view b, const TakeBoth& take_both) noexcept {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    const bool is_start = a.size() == whole_a.size() && b.size() == whole_b.size();
    if (const std::optional<First> first = take_both(a, b, is_start)) {
      if (*first != First::neither) {
        return *first == First::less;
      }
    } else if (a.front() != b.front()) {
      return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front());
    } else {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() && b.empty()) {
    return whole_a < whole_b;  // "07" and "7" differ all the same.
  }
  return a.empty();
}

}  // namespace

bool is_naturally_less(std::string_view a, std::string_view b) noexcept {
  return is_less(a, b, [](std::string_view& left, std::string_view& right, bool) -> std::optional<First> {
    if (!starts_with_digit(left) || !starts_with_digit(right)) {
      return std::nullopt;
    }
    const std::string_view number = take_number(left);
    const std::string_view other = take_number(right);
    return first_of(std::tuple(number.size(), number), std::tuple(other.size(), other));
  });
}

bool is_decimally_less(std::string_view a, std::string_view b) noexcept {
  return is_less(a, b,
                 [](std::string_view& left, std::string_view& right, bool is_start) -> std::optional<First> {
                   std::string_view after_left = left;
                   std::string_view after_right = right;
                   const std::optional<Decimal> number = Decimal::take(after_left, is_start);
                   const std::optional<Decimal> other = Decimal::take(after_right, is_start);
                   if (!number || !other) {
                     return std::nullopt;
                   }
                   left = after_left;
                   right = after_right;
                   return first_of(*number, *other);
                 });
}

std::string without_decimals(std::string_view name) {
  std::string kind;
  bool is_start = true;
  while (!name.empty()) {
    if (Decimal::take(name, is_start)) {
      kind += '#';
    } else {
      kind += name.front();
      name.remove_prefix(1);
    }
    is_start = false;
  }
  return kind;
}

}  // namespace cairn
