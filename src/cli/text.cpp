// SPDX-License-Identifier: Apache-2.0
#include "cli/text.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/internal/utf8.hpp"

namespace cairn::cli {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};

/// Whole blocks, where single characters of them would take a table of hundreds of lines.
// Source: Unicode 15, EastAsianWidth.txt, W and F.
constexpr std::array<CodeRange, 15> kWide = {{{0x1100, 0x115f},
                                              {0x231a, 0x231b},
                                              {0x23e9, 0x23ec},
                                              {0x2e80, 0x303e},
                                              {0x3041, 0x33ff},
                                              {0x3400, 0x4dbf},
                                              {0x4e00, 0xa4cf},
                                              {0xa960, 0xa97f},
                                              {0xac00, 0xd7a3},
                                              {0xf900, 0xfaff},
                                              {0xfe30, 0xfe6f},
                                              {0xff01, 0xff60},
                                              {0xffe0, 0xffe6},
                                              {0x1f300, 0x1faff},
                                              {0x20000, 0x3fffd}}};
/// Marks that join the character before them, joiners and variation selectors.
constexpr std::array<CodeRange, 6> kWithoutWidth = {{{0x0300, 0x036f},
                                                     {0x1ab0, 0x1aff},
                                                     {0x1dc0, 0x1dff},
                                                     {0x200b, 0x200d},
                                                     {0x20d0, 0x20ff},
                                                     {0xfe00, 0xfe0f}}};

template <std::size_t N>
bool is_in(const std::array<CodeRange, N>& ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

}  // namespace

std::size_t display_width(std::string_view text) noexcept {
  std::size_t width = 0;
  while (!text.empty()) {
    const char32_t code = take_code_point(text).value_or(U'?');
    if (code < 0x300) {
      ++width;
    } else if (!is_in(kWithoutWidth, code)) {
      width += is_in(kWide, code) ? 2 : 1;
    }
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) {
    return std::string(text);
  }
  if (columns == 0) {
    return {};
  }
  // The pieces of `text` that stand for one code point each; the end of a path says more than its middle.
  std::vector<std::string_view> pieces;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view before = rest;
    static_cast<void>(take_code_point(rest));
    pieces.push_back(before.substr(0, before.size() - rest.size()));
  }
  const auto take = [](auto begin, auto end, std::size_t most) {
    std::ptrdiff_t count = 0;
    for (std::size_t width = 0; begin != end && (width += display_width(*begin)) <= most; ++begin) {
      ++count;
    }
    return count;
  };
  const std::ptrdiff_t front = take(pieces.begin(), pieces.end(), columns / 2);
  const std::ptrdiff_t back = take(pieces.rbegin(), pieces.rend(), columns - 1 - columns / 2);
  return fmt::format("{}…{}", fmt::join(pieces.begin(), pieces.begin() + front, ""),
                     fmt::join(pieces.end() - back, pieces.end(), ""));
}

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string lines;
  std::size_t column = indent;  // Of the first line: somebody has written so much of it.
  bool is_first = true;         // Of its line.
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    const std::size_t width = display_width(word);
    if (!is_first && column + 1 + width > columns) {
      lines.append(1, '\n').append(indent, ' ');
      column = indent;
      is_first = true;
    }
    if (!is_first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += width;
    is_first = false;
    if (end < text.size() && text[end] == '\n') {
      lines.append(1, '\n').append(indent, ' ');
      column = indent;
      is_first = true;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string age_text(std::chrono::seconds age) {
  // A unit takes over when two of it have passed: "90 s" says more than "1 min".
  if (age < std::chrono::minutes(2)) {
    return fmt::format("{} s", age.count());
  }
  if (age < std::chrono::hours(2)) {
    return fmt::format("{} min", age.count() / 60);
  }
  if (age < std::chrono::hours(48)) {
    return fmt::format("{} h", age.count() / 3600);
  }
  return fmt::format("{} d", age.count() / 86'400);
}

std::string duration_text(std::chrono::duration<double> duration) {
  constexpr std::chrono::duration<double> kShort{10};
  return duration < kShort ? fmt::format("{:.1f} s", duration.count())
                           : age_text(std::chrono::floor<std::chrono::seconds>(duration));
}

}  // namespace cairn::cli
