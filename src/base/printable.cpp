// SPDX-License-Identifier: Apache-2.0
#include "base/internal/printable.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "base/internal/utf8.hpp"

namespace cairn {

bool is_printable(char32_t code) noexcept {
  const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool turns = code == 0x061C || code == 0x200E || code == 0x200F ||
                     (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  const bool separates = code == 0x2028 || code == 0x2029 || code == 0xFEFF;
  return !is_control && !turns && !separates;
}

std::string printable(std::string_view text) {
  const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7F; };
  if (std::all_of(text.begin(), text.end(), is_plain)) {
    return std::string(text);
  }
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    const std::optional<char32_t> code = take_code_point(text);
    const std::string_view taken = before.substr(0, before.size() - text.size());
    if (!code) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(taken.front()));
    } else if (is_printable(*code)) {
      result += taken;
    } else if (*code == '\n') {
      result += "\\n";
    } else if (*code == '\t') {
      result += "\\t";
    } else {
      const auto number = static_cast<std::uint32_t>(*code);
      result += number < 0x100 ? fmt::format("\\x{:02x}", number) : fmt::format("\\u{:04x}", number);
    }
  }
  return result;
}

}  // namespace cairn
