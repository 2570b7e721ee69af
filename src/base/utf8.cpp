// SPDX-License-Identifier: Apache-2.0
#include "base/internal/utf8.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cairn {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080u;

std::uint64_t eight_at(const char* text) noexcept {
  std::uint64_t eight = 0;
  std::memcpy(&eight, text, sizeof eight);
  return eight;
}

constexpr std::size_t kEight = sizeof(std::uint64_t);

/// Returns whether all of eight or more characters are ASCII; the last ones may be looked at twice.
bool is_ascii(std::string_view text) noexcept {
  std::uint64_t bits = eight_at(text.data() + text.size() - kEight);
  for (std::size_t at = 0; at + kEight < text.size(); at += kEight) {
    bits |= eight_at(text.data() + at);
  }
  return (bits & kHighBits) == 0;
}

}  // namespace

std::size_t valid_utf8_bytes(std::string_view text) noexcept {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view before = rest;
    if (rest.size() >= kEight && (eight_at(rest.data()) & kHighBits) == 0) {
      rest.remove_prefix(kEight);
    } else if (!take_code_point(rest)) {
      return text.size() - before.size();
    }
  }
  return text.size();
}

bool is_valid_utf8(std::string_view text) noexcept {
  constexpr std::size_t kMostOfAName = 256;  // Longer texts are looked at once.
  return (text.size() >= kEight && text.size() <= kMostOfAName && is_ascii(text)) ||
         valid_utf8_bytes(text) == text.size();
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

void append_code_point(std::string& out, char32_t code) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;  // Bytes after the first.
  constexpr std::array<char32_t, 4> kLeads = {0, 0xC0, 0xE0, 0xF0};
  put(kLeads[static_cast<std::size_t>(more)] | code >> 6 * more);
  for (int shift = 6 * (more - 1); shift >= 0; shift -= 6) {
    put(0x80 | (code >> shift & 0x3F));
  }
}

}  // namespace cairn
