// SPDX-License-Identifier: Apache-2.0
#include "formats/decimal_digits.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace cairn::formats {

std::string decimal_digits(std::string_view bytes) {
  const bool is_negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80u) != 0;
  std::vector<std::uint32_t> words((bytes.size() + 3) / 4, is_negative ? ~std::uint32_t{0} : 0);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  std::uint64_t carry = 1;
  for (std::size_t i = 0; is_negative && i < words.size(); ++i) {  // The absolute value.
    carry += ~words[i];
    words[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  constexpr std::uint64_t kBillion = 1'000'000'000;
  constexpr int kItsDigits = 9;
  std::string digits;  // The last comes first.
  while (!words.empty()) {
    std::uint64_t rest = 0;
    for (auto word = words.rbegin(); word != words.rend(); ++word) {
      rest = rest << 32 | *word;
      *word = static_cast<std::uint32_t>(rest / kBillion);
      rest %= kBillion;
    }
    while (!words.empty() && words.back() == 0) {
      words.pop_back();
    }
    for (int i = 0; i < kItsDigits && (rest != 0 || !words.empty()); ++i) {
      digits.push_back(static_cast<char>('0' + rest % 10));
      rest /= 10;
    }
  }
  digits.append(is_negative ? "-" : digits.empty() ? "0" : "");
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace cairn::formats
