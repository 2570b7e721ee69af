// SPDX-License-Identifier: Apache-2.0
#include "base/internal/json_string.hpp"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/internal/json_reader.hpp"
#include "base/internal/utf8.hpp"

namespace cairn {
namespace {

std::string appended(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(AppendJsonString, IsReadBackAsItWas) {
  std::string every;
  for (int c = 0; c < 0x80; ++c) {
    every.push_back(static_cast<char>(c));
  }
  every += "é😀";

  EXPECT_EQ(JsonReader(appended(every), "text").read_string(), every);
  EXPECT_EQ(nlohmann::json::parse(appended(every)), every);
}

TEST(AppendJsonString, HasTheBytesThatAnotherWriterMakes) {
  for (int c = 0; c < 0x100; ++c) {
    std::string text = "a1234567";
    append_code_point(text, static_cast<char32_t>(c));

    EXPECT_EQ(appended(text), nlohmann::json(text).dump()) << c;
  }
}

TEST(AppendJsonString, FindsWhatMustBeEscapedWhereverItStands) {
  for (std::size_t at = 0; at < 20; ++at) {
    std::string text(20, 'x');
    text[at] = '"';

    EXPECT_EQ(appended(text), nlohmann::json(text).dump()) << at;
  }
}

TEST(JsonStringBytes, AreCountedAsTheyAreAppended) {
  for (const char* text : {"", "short", "longer than eight", "\"", "12345678\x01", "é😀 and more\n"}) {
    EXPECT_EQ(json_string_bytes(text), appended(text).size()) << text;
  }
}

TEST(JsonString, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(json_string("a\"b\\c\n\x1b"), R"("a\"b\\c\n\u001b")");
  EXPECT_EQ(json_string("\u202E\x7F\xC2\x9B\uFEFF"), R"("\u202e\u007f\u009b\ufeff")");
}

TEST(JsonString, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(json_string("a\xFF"), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace cairn
