// SPDX-License-Identifier: Apache-2.0
#include "formats/json_reader.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "cairn/base/json_string.hpp"

#include "formats/fixtures.hpp"
#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

bool accepts(std::string_view json) {
  try {
    JsonReader reader(json, "text");
    reader.skip_value();
    reader.finish();
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(JsonReader, NamesTheTextAndTheByte) {
  JsonReader reader("[1, x]", "a.json");
  reader.begin_array();
  ASSERT_TRUE(reader.next_element());
  EXPECT_EQ(reader.read_unsigned(), 1u);
  ASSERT_TRUE(reader.next_element());

  EXPECT_THAT([&] { static_cast<void>(reader.read_unsigned()); },
              Fails(Errc::malformed_metadata, HasSubstr("a.json: byte 4")));
}

TEST(JsonReader, ReadsTheLargestInteger) {
  EXPECT_EQ(JsonReader("18446744073709551615", "text").read_unsigned(), UINT64_MAX);
}

TEST(JsonReader, ContinuesBehindAContainerThatItReadInside) {
  JsonReader reader(R"({"a":[[],{}],"b":2})", "text");
  std::string scratch;
  std::string_view key;
  reader.begin_object();
  ASSERT_TRUE(reader.next_key(key, scratch));
  reader.skip_value();
  ASSERT_TRUE(reader.next_key(key, scratch));

  EXPECT_EQ(key, "b");
  EXPECT_EQ(reader.read_unsigned(), 2u);
  EXPECT_FALSE(reader.next_key(key, scratch));
}

class JsonText : public ::testing::TestWithParam<const char*> {};

TEST_P(JsonText, IsAcceptedExactlyWhenAnotherLibraryAcceptsIt) {
  EXPECT_EQ(accepts(GetParam()), other_library_accepts(GetParam())) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(
    Grammar, JsonText,
    ::testing::Values("", " ", "null", "nul", "nulll", "true", "false", "True", "0", "-0", "-", "01", "1.",
                      ".5", "1.5", "1e5", "1E+5", "1e", "1e+", "-1.25e-3", "1e-400", "+1", "0x1", "\"\"",
                      "\"a", "\"\\u00e9\"", "\"\\u12\"", "\"\\uD83D\\uDE00\"", "\"\\q\"", "\"\t\"", "[]", "[",
                      "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1,2]", "[[]]", "[[],[]]", "{}", "{", "}",
                      "{\"a\"}", "{\"a\":}", "{\"a\":1", "{\"a\":1,}", "{\"a\":1,\"b\":[{}]}", "{a:1}",
                      "{1:1}", "{\"a\" : 1 }", "[1}", "{\"a\":1]", "1 2", "[] []", "NaN", "Infinity",
                      "-Infinity", "'a'", "\xC3\xA9", "\"\xC3\xA9\"", "\"\xC3\"", "\"\xED\xA0\x80\"",
                      "\"\xF4\x90\x80\x80\"", "\"\xF0\x9F\x98\x80\"", "\"\x7F\"", "// a\n1", "[1]\v"));

TEST(JsonReaderRandomText, AgreesWithAnotherLibrary) {
  // Mutations of a text with every construct; the other library takes a NUL for the end of the text, so none here.
  const std::string seed = R"({"a":[1,-2.5e3,true,null,"x\u00e9\n"],"b":{"c":{},"d":[[],""]},"é":1e2})";
  const std::string alphabet = "{}[]\",:\\ue0123+-. tfn\n\xC3\xA9/";
  std::mt19937 random(20240611);
  std::size_t accepted = 0;

  for (int round = 0; round < 20'000; ++round) {
    std::string text = seed;
    const std::size_t changes = 1 + random() % 3;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1);
      }
    }
    ASSERT_EQ(accepts(text), other_library_accepts(text)) << text;
    accepted += accepts(text) ? 1 : 0;
  }

  EXPECT_GT(accepted, 500u);
}

TEST(JsonReader, SkipsValuesUpToItsDepth) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };

  EXPECT_TRUE(accepts(nested(JsonReader::kMaxDepth)));
  EXPECT_FALSE(accepts(nested(JsonReader::kMaxDepth + 1)));
}

TEST(AppendJsonString, IsReadBackAsItWas) {
  std::string every;
  for (int c = 0; c < 0x80; ++c) {
    every.push_back(static_cast<char>(c));
  }
  every += "é😀";
  std::string json;
  append_json_string(json, every);
  std::string scratch;

  EXPECT_EQ(JsonReader(json, "text").read_string(scratch), every);
  EXPECT_TRUE(other_library_accepts(json));
}

}  // namespace
}  // namespace cairn::formats
