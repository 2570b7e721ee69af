// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/utf8.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cairn {
namespace {

struct Lead {
  std::size_t length;     // Bytes of the sequence; 0 when no sequence starts so.
  unsigned second_begin;  // Range of the second byte; it is what rules out overlong forms and surrogates.
  unsigned second_end;
};

Lead lead_of(unsigned byte) noexcept {
  if (byte >= 0xC2 && byte <= 0xDF) {
    return {2, 0x80, 0xC0};
  }
  if (byte >= 0xE0 && byte <= 0xEF) {
    return {3, byte == 0xE0 ? 0xA0u : 0x80u, byte == 0xED ? 0xA0u : 0xC0u};
  }
  if (byte >= 0xF0 && byte <= 0xF4) {
    return {4, byte == 0xF0 ? 0x90u : 0x80u, byte == 0xF4 ? 0x90u : 0xC0u};
  }
  return {0, 0, 0};
}

constexpr std::uint64_t kHighBits = 0x8080808080808080u;

std::uint64_t eight_at(const char* text) noexcept {
  std::uint64_t eight = 0;
  std::memcpy(&eight, text, sizeof eight);
  return eight;
}

/// Whether all of eight or more characters are ASCII; the last ones may be looked at twice.
bool is_ascii(std::string_view text) noexcept {
  constexpr std::size_t kEight = sizeof(std::uint64_t);
  std::uint64_t bits = eight_at(text.data() + text.size() - kEight);
  for (std::size_t at = 0; at + kEight < text.size(); at += kEight) {
    bits |= eight_at(text.data() + at);
  }
  return (bits & kHighBits) == 0;
}

}  // namespace

bool is_valid_utf8(std::string_view text) noexcept {
  constexpr std::size_t kMostOfAName = 256;  // Longer texts are looked at once.
  if (text.size() >= sizeof(std::uint64_t) && text.size() <= kMostOfAName && is_ascii(text)) {
    return true;
  }
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= sizeof(std::uint64_t) && (eight_at(text.data() + at) & kHighBits) == 0) {
      at += sizeof(std::uint64_t);
      continue;
    }
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) {
      ++at;
      continue;
    }
    const Lead lead = lead_of(first);
    if (lead.length == 0 || lead.length > text.size() - at) {
      return false;
    }
    const auto second = static_cast<unsigned char>(text[at + 1]);
    if (second < lead.second_begin || second >= lead.second_end) {
      return false;
    }
    for (std::size_t i = 2; i < lead.length; ++i) {
      if ((static_cast<unsigned char>(text[at + i]) & 0xC0u) != 0x80u) {
        return false;
      }
    }
    at += lead.length;
  }
  return true;
}

std::optional<char32_t> take_code_point(std::string_view& text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xC0 ? 0
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                           : lead < 0xF8 ? 4
                                         : 0;
  if (size == 0 || text.size() < size) {
    text.remove_prefix(1);
    return std::nullopt;
  }
  char32_t code = size == 1 ? lead : lead & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0u) != 0x80) {
      text.remove_prefix(1);
      return std::nullopt;
    }
    code = code << 6 | (next & 0x3Fu);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[size] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    text.remove_prefix(1);
    return std::nullopt;
  }
  text.remove_prefix(size);
  return code;
}

}  // namespace cairn
