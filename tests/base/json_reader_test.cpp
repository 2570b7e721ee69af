// SPDX-License-Identifier: Apache-2.0
#include "base/internal/json_reader.hpp"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <variant>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/internal/json_writer.hpp"
#include "support/fails.hpp"
#include "support/other_arithmetic.hpp"

namespace cairn {
namespace {

using namespace std::string_literals;
using testing::Fails;
using ::testing::HasSubstr;

/// The document as it was understood, without white space; nothing when it is refused.
std::optional<std::string> ours(std::string_view text, JsonRules rules = JsonRules()) {
  std::string result;
  JsonWriter writer(result);
  try {
    JsonReader reader(text, "text", rules);
    reader.read_value(writer);
    reader.finish();
    return result;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The same of another library.
std::optional<std::string> theirs(std::string_view text) {
  const auto document = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  return document.is_discarded() ? std::nullopt : std::optional(document.dump());
}

JsonScalar scalar(std::string_view text) {
  return JsonReader(text, "text").read_scalar();
}

TEST(JsonReader, NamesTheTextAndTheByte) {
  JsonReader reader("[1, x]", "a.json");
  reader.begin_list();
  ASSERT_TRUE(reader.next_element());
  EXPECT_EQ(reader.read_unsigned(), 1u);
  ASSERT_TRUE(reader.next_element());

  EXPECT_THAT([&] { static_cast<void>(reader.read_unsigned()); },
              Fails(Errc::malformed_metadata, HasSubstr("a.json: byte 4")));
}

TEST(JsonReader, RefusesWithTheCodeOfItsRules) {
  JsonRules rules;
  rules.code = Errc::invalid_argument;

  EXPECT_THAT([&] { JsonReader("x", "text", rules).skip_value(); }, Fails(Errc::invalid_argument));
}

TEST(JsonReader, NamesTheByteThatIsNotUtf8) {
  EXPECT_THAT([&] { JsonReader("\"123456789\xC3\xA9\xFF\"", "text"); },
              Fails(Errc::malformed_metadata, HasSubstr("byte 12 of the JSON text: not valid UTF-8")));
}

TEST(JsonReader, ContinuesBehindAContainerThatItReadInside) {
  JsonReader reader(R"({"a":[[],{}],"b":2})", "text");
  reader.begin_object();
  ASSERT_TRUE(reader.next_key());
  reader.skip_value();

  EXPECT_EQ(reader.next_key(), "b");
  EXPECT_EQ(reader.read_unsigned(), 2u);
  EXPECT_EQ(reader.next_key(), std::nullopt);
}

TEST(JsonReaderUnsigned, IsReadUpToTheLargest) {
  EXPECT_EQ(JsonReader("18446744073709551615", "text").read_unsigned(), UINT64_MAX);
}

TEST(JsonReaderUnsigned, RefusesOtherNumbers) {
  for (const char* text : {"18446744073709551616", "-1", "1.5", "1.0", "1e3", "1E3", "01", "\"1\"", ""}) {
    EXPECT_THAT([&] { static_cast<void>(JsonReader(text, "text").read_unsigned()); },
                Fails(Errc::malformed_metadata))
        << text;
  }
}

TEST(JsonReaderNumber, KeepsIntegersExactlyAtTheirLimits) {
  EXPECT_EQ(scalar("0"), JsonScalar(std::uint64_t{0}));
  EXPECT_EQ(scalar("-0"), JsonScalar(std::int64_t{0}));
  EXPECT_EQ(scalar("9223372036854775808"), JsonScalar(std::uint64_t{1} << 63));
  EXPECT_EQ(scalar("18446744073709551615"), JsonScalar(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(scalar("-9223372036854775808"), JsonScalar(std::numeric_limits<std::int64_t>::min()));
}

TEST(JsonReaderNumber, TakesTheNearestDoubleOfAllOthers) {
  EXPECT_EQ(scalar("18446744073709551616"), JsonScalar(18446744073709551616.0));
  EXPECT_EQ(scalar("-9223372036854775809"), JsonScalar(-9223372036854775808.0));
  EXPECT_EQ(scalar("1.7976931348623157e308"), JsonScalar(std::numeric_limits<double>::max()));
  EXPECT_EQ(scalar("5e-324"), JsonScalar(std::numeric_limits<double>::denorm_min()));
  EXPECT_EQ(scalar("9007199254740993.0"), JsonScalar(9007199254740992.0));  // Half way: to even.
  EXPECT_EQ(scalar("1e-999"), JsonScalar(0.0));
  EXPECT_EQ(scalar("0." + std::string(400, '0') + "1"), JsonScalar(0.0));
  EXPECT_EQ(scalar("1" + std::string(400, '0') + "e-400"), JsonScalar(1.0));
}

TEST(JsonReaderNumber, RefusesWhatNoDoubleHolds) {
  for (const std::string& text : {"1e309"s, "-1e309"s, "1"s + std::string(400, '0'),
                                  "1"s + std::string(400, '0') + "e-10", "1e99999999999999999999"s}) {
    EXPECT_THAT([&] { static_cast<void>(scalar(text)); },
                Fails(Errc::malformed_metadata, HasSubstr("is too large")))
        << text;
  }
}

TEST(JsonReaderDepth, IsThatOfAllThatIsOpen) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  JsonRules rules;
  rules.max_depth = 3;

  EXPECT_TRUE(ours(nested(3), rules));
  EXPECT_FALSE(ours(nested(4), rules));
  EXPECT_TRUE(ours(R"([[],[[]],{"a":[]}])", rules));
  EXPECT_TRUE(ours("\"" + nested(4) + "\"", rules));
  JsonReader reader("[[[[]]]]", "text", rules);
  reader.begin_list();
  ASSERT_TRUE(reader.next_element());
  EXPECT_THAT([&] { reader.skip_value(); },
              Fails(Errc::malformed_metadata, HasSubstr("byte 4 of the JSON text: nested deeper than 3")));
}

TEST(JsonReaderDepth, OfAMillionTakesNoStack) {
  JsonRules rules;
  rules.max_depth = 2'000'000;
  std::string text(1'000'000, '[');
  text += std::string(1'000'000, ']');

  EXPECT_EQ(ours(text, rules), text);
}

TEST(JsonReaderKeys, MayComeTwiceUnlessTheRulesForbidIt) {
  JsonRules rules;
  rules.has_unique_keys = true;

  EXPECT_TRUE(ours(R"({"a":1,"a":2})"));
  EXPECT_FALSE(ours(R"({"a":1,"a":2})", rules));
  EXPECT_FALSE(ours(R"({"a":1,"\u0061":2})", rules));
  EXPECT_FALSE(ours(R"([{"x":[{"a":1,"b":2,"a":3}]}])", rules));
  EXPECT_TRUE(ours(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})", rules));
  EXPECT_THAT(
      [&] { JsonReader(R"({"a":1,"a":2})", "text", rules).skip_value(); },
      Fails(Errc::malformed_metadata, HasSubstr("byte 10 of the JSON text: the key 'a' is given twice")));
}

/// Why we refuse what the other library takes.
bool is_refused_on_purpose(std::string_view text) {
  const bool has_byte_order_mark = text.starts_with("\xEF\xBB\xBF");
  const bool has_nul = text.find('\0') != std::string_view::npos;  // The end of the text, to them.
  return has_byte_order_mark || has_nul;
}

TEST(JsonReader, RefusesWhatAnotherLibraryOverlooks) {
  for (const std::string& text : {"\xEF\xBB\xBF[1]"s, "[1]\0x"s}) {
    EXPECT_EQ(theirs(text), "[1]");
    EXPECT_EQ(ours(text), std::nullopt);
  }
}

class JsonText : public ::testing::TestWithParam<std::string> {};

TEST_P(JsonText, IsUnderstoodAsAnotherLibraryUnderstandsIt) {
  EXPECT_EQ(ours(GetParam()), is_refused_on_purpose(GetParam()) ? std::nullopt : theirs(GetParam()))
      << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Grammar, JsonText,
                         ::testing::Values("", " ", "null", "nul", "nulll", "true", "false", "True", "[]",
                                           "[", "]", "[1", "[1,", "[1,]", "[,1]", "[,]", "[1 2]", "[1,2]",
                                           "[[]]", "[[],[]]", "{}", "{", "}", "{\"a\"}", "{\"a\":}",
                                           "{\"a\":1", "{\"a\":1,}", "{,}", "{\"a\":1,\"b\":[{}]}", "{a:1}",
                                           "{1:1}", "{\"a\" : 1 }", "[1}", "{\"a\":1]", "1 2", "[] []", "NaN",
                                           "Infinity", "-Infinity", "'a'", "// a\n1", "/**/1", "[1]\v",
                                           " \t\r\n[ 1 ,\t2 ]\r\n", "\xEF\xBB\xBF[]", "[]\xEF\xBB\xBF",
                                           "\xEF\xBB[]", "[1]\0"s, "[1]\0x"s, "\0"s, "[\0]"s));

INSTANTIATE_TEST_SUITE_P(
    Numbers, JsonText,
    ::testing::Values("0", "-0", "-", "--1", "01", "-01", "00", "1.", ".5", "1.5", "-.5", "1e5", "1E+5", "1e",
                      "1e+", "1e5.5", "-1.25e-3", "+1", "0x1", "1_0", "0.0", "-0.0", "0e0", "0e999", "1e-400",
                      "1e308", "1e309", "-1e309", "2.2250738585072011e-308", "4.9e-324", "2.4e-324",
                      "9007199254740993", "9007199254740993.0", "9223372036854775807", "9223372036854775808",
                      "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
                      "18446744073709551616", "0.1", "1e15", "1e16", "123456789012345678901234567890",
                      "100000000000000000000000e-23", "1.7976931348623158e308", "1.7976931348623159e308"));

INSTANTIATE_TEST_SUITE_P(
    Strings, JsonText,
    ::testing::Values("\"\"", "\"a", "\"\\u00e9\"", "\"\\u12\"", "\"\\u123g\"", "\"\\u+123\"",
                      "\"\\uD83D\\uDE00\"", "\"\\uD83D\"", "\"\\uD83Dx\"", "\"\\uD83D\\n\"",
                      "\"\\uD83D\\uD83D\"", "\"\\uDE00\"", "\"\\uD83D\\uDBFF\"", "\"\\u0000\"",
                      "\"\\uFFFF\\uFFFE\"", "\"\\q\"", "\"\\", "\"\\\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                      "\"\t\"", "\"\n\"", "\"\x1F\"", "\"\x7F\"", "\"a\0b\""s, "\xC3\xA9", "\"\xC3\xA9\"",
                      "\"\xC3\"", "\"\xC3", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"",
                      "\"\xF0\x9F\x98\x80\"", "\"\xC0\xAF\"", "\"\xE0\x9F\xBF\"", "\"\xFF\"",
                      "\"\\\xC3\xA9\"", "{\"\xC3\xA9\":\"\xE9\x87\x8D\"}", "{\"\\u0061\":1}", "{\"\":\"\"}"));

TEST(JsonTextRandom, IsUnderstoodAsAnotherLibraryUnderstandsIt) {
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
    const std::optional<std::string> understood = ours(text);
    // Of keys that come twice the other library keeps one.
    JsonRules unique;
    unique.has_unique_keys = true;
    if (understood && !ours(text, unique)) {
      continue;
    }
    ASSERT_EQ(understood, theirs(text)) << text;
    accepted += understood ? 1 : 0;
  }

  EXPECT_GT(accepted, 500u);
}

TEST(JsonTextRandom, HasTheNumbersThatAnotherLibraryReads) {
  std::mt19937_64 random(7);

  for (int round = 0; round < 20'000; ++round) {
    const auto bits = random();
    const auto value = std::bit_cast<double>(bits);
    std::string text = fmt::format("{}", bits >> (bits % 64));
    switch (round % 4) {
      case 0:
        text = std::isfinite(value) ? fmt::format("{:.{}e}", value, random() % 25) : text;
        break;
      case 1:
        text = fmt::format("-{}", text);
        break;
      case 2:
        text += fmt::format(".{}e{}", random(), static_cast<int>(random() % 660) - 345);
        break;
      default:
        text += fmt::format("{}", random() % 1000);
    }
    ASSERT_EQ(ours(text), theirs(text)) << text;
  }
}

TEST(JsonReader, WantsACommaBehindNull) {
  JsonReader reader("[null null]", "text");
  reader.begin_list();
  ASSERT_TRUE(reader.next_element());
  ASSERT_TRUE(reader.skip_null());

  EXPECT_THAT([&] { static_cast<void>(reader.next_element()); }, Fails(Errc::malformed_metadata));
}

TEST(JsonReader, TakesTheNearestNumberHoweverTheThreadComputes) {
  for (const char* text : {"0.3", "0.1", "1e-400", "4.9e-324", "2.2250738585072011e-308", "123456.789e3"}) {
    const auto expected =
        std::bit_cast<std::uint64_t>(std::get<double>(JsonReader(text, "text").read_scalar()));
    for (const int rounding : testing::OtherArithmetic::kRoundings) {
      std::uint64_t bits = 0;
      {
        const testing::OtherArithmetic arithmetic(rounding);
        bits = std::bit_cast<std::uint64_t>(std::get<double>(JsonReader(text, "text").read_scalar()));
      }
      EXPECT_EQ(bits, expected) << text << " in mode " << rounding;
    }
  }
}

TEST(JsonReader, ContinuesBehindNull) {
  JsonReader reader("[null,7]", "text");
  reader.begin_list();
  ASSERT_TRUE(reader.next_element());
  ASSERT_TRUE(reader.skip_null());
  ASSERT_TRUE(reader.next_element());

  EXPECT_FALSE(reader.skip_null());
  EXPECT_EQ(reader.read_unsigned(), 7u);
  EXPECT_FALSE(reader.next_element());
}

}  // namespace
}  // namespace cairn
