// SPDX-License-Identifier: Apache-2.0
#include "base/internal/natural_order.hpp"

#include <algorithm>
#include <cstddef>

namespace cairn {
namespace {

bool is_decimal_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// Takes the digits at the front of `text`, without leading zeros.
std::string_view take_number(std::string_view& text) noexcept {
  const auto end = std::find_if_not(text.begin(), text.end(), is_decimal_digit);
  std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

}  // namespace

bool is_naturally_less(std::string_view a, std::string_view b) noexcept {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_decimal_digit(a.front()) && is_decimal_digit(b.front())) {
      const std::string_view number_a = take_number(a);
      const std::string_view number_b = take_number(b);
      if (number_a != number_b) {
        return number_a.size() != number_b.size() ? number_a.size() < number_b.size() : number_a < number_b;
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

}  // namespace cairn
