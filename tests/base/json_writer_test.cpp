// SPDX-License-Identifier: Apache-2.0
#include "base/internal/json_writer.hpp"

#include <cfenv>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/internal/json_reader.hpp"
#include "support/other_arithmetic.hpp"

namespace cairn {
namespace {

constexpr const char* kDocument =
    R"({"empty":[{},[],""],"numbers":[0,-1,0.1,1e300,18446744073709551615],"deep":[[{"x":[true,false,null]}]]})";

std::string copied(JsonStyle style) {
  std::string text;
  JsonWriter writer(text, style);
  JsonReader(kDocument, "text").read_value(writer);
  return text;
}

TEST(JsonWriter, WritesCompactTextAsAnotherWriterDoes) {
  EXPECT_EQ(copied({}), nlohmann::ordered_json::parse(kDocument).dump());
}

TEST(JsonWriter, WritesBlocksAsAnotherWriterDoes) {
  EXPECT_EQ(copied({JsonLayout::block, 1}), nlohmann::ordered_json::parse(kDocument).dump(1) + "\n");
}

TEST(JsonWriter, WritesALineWithBlanks) {
  std::string text;
  JsonWriter writer(text, {JsonLayout::line});

  writer.begin_object()
      .key("a")
      .begin_list()
      .value(std::uint64_t{1})
      .value(true)
      .end()
      .key("b")
      .value("x")
      .end();

  EXPECT_EQ(text, "{\"a\": [1, true], \"b\": \"x\"}\n");
}

TEST(JsonWriter, KeepsInALineWhatIsInIt) {
  std::string text;
  JsonWriter writer(text, {JsonLayout::block});

  writer.begin_list()
      .begin_object(JsonLayout::line)
      .key("a")
      .begin_list()
      .value(nullptr)
      .raw("2")
      .end()
      .end()
      .end();

  EXPECT_EQ(text, "[\n  {\"a\": [null, 2]}\n]\n");
}

TEST(JsonWriter, EscapesAsItsStyleSays) {
  std::string plain;
  std::string shown;

  JsonWriter(plain).value("\u202E");
  JsonWriter(shown, {JsonLayout::compact, 0, JsonEscapes::unprintable}).value("\u202E");

  EXPECT_EQ(plain, "\"\u202E\"");
  EXPECT_EQ(shown, "\"\\u202e\"");
}

TEST(JsonWriter, KeepsSubnormalNumbersWhereTheThreadTakesThemForZero) {
  std::string text;
  {
    const testing::OtherArithmetic arithmetic(FE_UPWARD);
    JsonWriter(text).value(5e-324);
  }

  EXPECT_EQ(text, "5e-324");
}

}  // namespace
}  // namespace cairn
