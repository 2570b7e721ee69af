// SPDX-License-Identifier: Apache-2.0
#include "base/internal/json_string.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/internal/printable.hpp"
#include "base/internal/utf8.hpp"

namespace cairn {
namespace {

/// Has the high bit of the lowest byte that is below `limit` (not above 0x80), and none of those below it.
std::uint64_t below(std::uint64_t eight, std::uint64_t limit) noexcept {
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  return (eight - limit * kOnes) & ~eight & (0x80 * kOnes);
}

std::uint64_t equal(std::uint64_t eight, char c) noexcept {
  return below(eight ^ (static_cast<std::uint64_t>(c) * 0x0101010101010101u), 1);
}

/// Takes a code point off the front of `text` and appends what a JSON string holds for it.
void append_next(std::string& out, std::string_view& text, JsonEscapes escapes) {
  constexpr std::string_view kNames = "\"\\bfnrt";
  constexpr std::string_view kCharacters = "\"\\\b\f\n\r\t";
  const std::string_view before = text;
  const std::optional<char32_t> code = take_code_point(text);
  const std::size_t named = kCharacters.find(before.front());
  if (!code) {
    out += "\xEF\xBF\xBD";
  } else if (named != std::string_view::npos) {
    out += '\\';
    out += kNames[named];
  } else if (*code < 0x20 || (escapes == JsonEscapes::unprintable && !is_printable(*code))) {
    out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(*code));
  } else {
    out += before.substr(0, before.size() - text.size());
  }
}

}  // namespace

std::size_t plain_json_bytes(std::string_view text) noexcept {
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, sizeof eight);
    const std::uint64_t special = below(eight, 0x20) | equal(eight, '"') | equal(eight, '\\');
    if (special != 0) {
      return at + static_cast<std::size_t>(std::countr_zero(special)) / 8;
    }
  }
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; };
  const auto rest = text.substr(at);
  return at + static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), is_plain) - rest.begin());
}

void append_json_string(std::string& out, std::string_view text, JsonEscapes escapes) {
  out.push_back('"');
  while (!text.empty()) {
    const std::size_t plain = escapes == JsonEscapes::needed ? plain_json_bytes(text) : 0;
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (!text.empty()) {
      append_next(out, text, escapes);
    }
  }
  out.push_back('"');
}

std::size_t json_string_bytes(std::string_view text) {
  constexpr std::size_t kQuotes = 2;
  if (plain_json_bytes(text) == text.size()) {
    return kQuotes + text.size();
  }
  std::string escaped;
  append_json_string(escaped, text);
  return escaped.size();
}

std::string json_string(std::string_view text) {
  std::string result;
  append_json_string(result, text, JsonEscapes::unprintable);
  return result;
}

}  // namespace cairn
