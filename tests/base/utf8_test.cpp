// SPDX-License-Identifier: Apache-2.0
#include "base/internal/utf8.hpp"

#include <cstddef>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Utf8, AcceptsTheBordersOfEveryLength) {
  for (const std::string_view good :
       {"", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
        "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "12345678\xC3\xA9"}) {
    EXPECT_TRUE(is_valid_utf8(good)) << good;
  }
}

TEST(Utf8, RefusesWhatLiesBeyondTheBordersOfEveryLength) {
  for (const std::string_view bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x7F", "\xE0\x9F\xBF", "\xE1\x80",
        "\xED\xA0\x80", "\xEF\xBF\xC0", "\xF0\x8F\xBF\xBF", "\xF0\x90\x80", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xFF", "12345678\xC3"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
  }
}

TEST(Utf8, FindsABadByteWhereverItStandsAmongManyGoodOnes) {
  for (std::size_t at = 0; at < 20; ++at) {
    std::string text(20, 'x');
    text[at] = '\xFF';
    EXPECT_FALSE(is_valid_utf8(text)) << at;
  }
}

TEST(Utf8, CountsWhatIsGoodBeforeTheFirstBadByte) {
  EXPECT_EQ(valid_utf8_bytes(""), 0u);
  EXPECT_EQ(valid_utf8_bytes("123456789\xC3\xA9"), 11u);
  EXPECT_EQ(valid_utf8_bytes("123456789\xC3\xA9\xFFx"), 11u);
  EXPECT_EQ(valid_utf8_bytes("123456789\xC3"), 9u);
}

TEST(Utf8, TakesEveryCodePointAsItWasAppended) {
  constexpr char32_t kCodes = 0x110000;
  char32_t wrong = kCodes;
  for (char32_t code = 0; code < kCodes; ++code) {
    const bool is_surrogate = code >= 0xD800 && code < 0xE000;
    std::string text;
    append_code_point(text, code);
    std::string_view rest = text;
    if ((take_code_point(rest) == code && rest.empty()) == is_surrogate) {
      wrong = code;
    }
  }

  EXPECT_EQ(static_cast<unsigned>(wrong), static_cast<unsigned>(kCodes));
}

}  // namespace
}  // namespace cairn
