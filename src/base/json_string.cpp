// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/json_string.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cairn {
namespace {

bool is_plain(char c) noexcept {
  return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
}

/// Whether a JSON string holds `text` as it is. Looks at eight bytes at a time: names of arrays come in millions.
bool is_plain(std::string_view text) noexcept {
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  constexpr std::uint64_t kHighBits = 0x80 * kOnes;
  // The high bit of some byte is set when a byte is below `limit` (not above 0x80).
  const auto has_below = [](std::uint64_t eight, std::uint64_t limit) {
    return (eight - limit * kOnes) & ~eight & kHighBits;
  };
  const auto is_special = [&](const char* from) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, from, sizeof eight);
    return (has_below(eight, 0x20) | has_below(eight ^ ('"' * kOnes), 1) |
            has_below(eight ^ ('\\' * kOnes), 1)) != 0;
  };
  constexpr std::size_t kEight = sizeof(std::uint64_t);
  if (text.size() < kEight) {
    return std::all_of(text.begin(), text.end(), [](char c) { return is_plain(c); });
  }
  for (std::size_t at = 0; at + kEight < text.size(); at += kEight) {
    if (is_special(text.data() + at)) {
      return false;
    }
  }
  return !is_special(text.data() + text.size() - kEight);  // Some are looked at twice.
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.push_back('"');
  if (is_plain(text)) {
    out.append(text);
    out.push_back('"');
    return;
  }
  std::size_t unflushed = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (is_plain(text[at])) {
      continue;
    }
    out.append(text.substr(unflushed, at - unflushed));
    unflushed = at + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += "\\u00";
        out.push_back(kHex[c >> 4]);
        out.push_back(kHex[c & 15]);
    }
  }
  out.append(text.substr(unflushed));
  out.push_back('"');
}

std::size_t json_string_bytes(std::string_view text) {
  constexpr std::size_t kQuotes = 2;
  if (is_plain(text)) {
    return kQuotes + text.size();
  }
  std::string escaped;
  append_json_string(escaped, text);
  return escaped.size();
}

}  // namespace cairn
