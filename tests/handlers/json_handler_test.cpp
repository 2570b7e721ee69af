// SPDX-License-Identifier: Apache-2.0
#include <cfenv>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"

#include "core/internal/start.hpp"
#include "handlers/store.hpp"
#include "support/other_arithmetic.hpp"

namespace cairn {
namespace {

using nlohmann::json;
using testing::Fails;
using ::testing::HasSubstr;

/// Loads texts that nobody wrote for Cairn, through a handler that writes them as they are.
class RawText final : public CheckpointableHandler<std::string> {
 public:
  std::string_view id() const noexcept override { return "cairn.json/1"; }
  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const std::string& text) const override {
    co_return context.write_file("data.json", text);
  }
  Awaitable<Background<std::string>> load(LoadContext context, std::optional<std::string>) const override {
    co_return context.read_file("data.json");
  }
  Awaitable<std::string> metadata(LoadContext) const override { co_return std::string(); }
};

class JsonHandlerTest : public testing::StoreTest {
 protected:
  void save_text(const std::string& text) {
    SaveOptions options;
    options.overwrite = true;
    core::start_save(path(), Checkpointables{{"item", text}}, HandlerRegistry().add<RawText>().snapshot(),
                     options, context_)
        .wait();
  }

  json parse(const std::string& text) {
    save_text(text);
    return load<json>();
  }

  std::optional<JsonKind> described(const std::string& text) {
    save_text(text);
    return metadata<AbstractJson>().kind;
  }
};

using JsonHandlerSave = JsonHandlerTest;
using JsonHandlerLoad = JsonHandlerTest;

json nested(std::size_t depth) {
  json value = 1;
  for (std::size_t i = 0; i < depth; ++i) {
    json parent = json::array();
    parent.push_back(std::move(value));
    value = std::move(parent);
  }
  return value;
}

TEST_F(JsonHandlerSave, KeepsTheDocument) {
  const json value = {{"a", {1, -2, 0.1, 1e300, std::numeric_limits<std::uint64_t>::max()}},
                      {"b", {{"c", nullptr}, {"é\n", "\"\\\u0001"}}},
                      {"d", json::array()},
                      {"e", json::object()},
                      {"f", true}};

  save(value);

  EXPECT_EQ(load<json>(), value);
}

TEST_F(JsonHandlerSave, KeepsTheDocumentItSawWhenTheCallerChangesItLater) {
  json value = {{"step", 1}};

  auto saving = start(value);
  value["step"] = 2;
  saving.wait();

  EXPECT_EQ(load<json>(), json({{"step", 1}}));
}

TEST_F(JsonHandlerSave, KeepsNumbersHoweverTheThreadComputes) {
  const json value = {5e-324, 0.3};
  json loaded;
  {
    const testing::OtherArithmetic arithmetic(FE_UPWARD);
    save(value);
    loaded = load<json>();
  }

  EXPECT_EQ(loaded.dump(), value.dump());
}

TEST_F(JsonHandlerSave, RefusesNaN) {
  EXPECT_THAT(
      [&] {
        save(json{{"a", std::numeric_limits<double>::quiet_NaN()}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'item' at '/a': JSON cannot hold NaN")));
  EXPECT_THAT(
      [&] {
        save(json{{"a", json::array({1, {{"b", json::binary({1})}}})}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'item' at '/a/1/b': JSON cannot hold binary")));
}

TEST_F(JsonHandlerSave, RefusesInfinity) {
  EXPECT_THAT([&] { save(json{std::numeric_limits<double>::infinity()}); }, Fails(Errc::invalid_argument));
}

TEST_F(JsonHandlerSave, RefusesBinaryValues) {
  EXPECT_THAT([&] { save(json(json::binary({1, 2}))); }, Fails(Errc::invalid_argument, HasSubstr("binary")));
}

TEST_F(JsonHandlerSave, RefusesStringsThatAreNotUtf8) {
  EXPECT_THAT(
      [&] {
        save(json{{"a", json::array({"x", "\xff"})}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'item' at '/a/1': a text is not valid UTF-8")));
  EXPECT_THAT(
      [&] {
        save(json{{"b", {{"\xff", 1}}}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'item' at '/b/(a key)': a text is not valid UTF-8")));
}

TEST_F(JsonHandlerSave, TakesTheDeepestDocument) {
  save(nested(kMaxJsonDepth));
  EXPECT_EQ(load<json>(), nested(kMaxJsonDepth));
}

TEST_F(JsonHandlerSave, RefusesADepthOfTenThousand) {
  EXPECT_THAT([&] { save(nested(10'000)); }, Fails(Errc::invalid_argument, HasSubstr("deeper than 512")));
}

TEST_F(JsonHandlerLoad, RefusesADepthOfTenThousand) {
  EXPECT_THAT([&] { parse(std::string(10'000, '[')); },
              Fails(Errc::malformed_metadata, HasSubstr("deeper than 512")));
}

TEST_F(JsonHandlerLoad, RefusesAKeyThatIsThereTwice) {
  EXPECT_THAT([&] { parse(R"({"a": 1, "b": {"a": 1}, "a": 2})"); },
              Fails(Errc::malformed_metadata, HasSubstr("'a' is given twice")));
}

TEST_F(JsonHandlerLoad, RefusesInvalidUtf8) {
  EXPECT_THAT([&] { parse("\"\xff\""); }, Fails(Errc::malformed_metadata, HasSubstr("data.json: byte 1")));
}

TEST_F(JsonHandlerLoad, RefusesTextBehindTheDocument) {
  EXPECT_THAT([&] { parse("1 2"); }, Fails(Errc::malformed_metadata));
}

TEST_F(JsonHandlerLoad, RefusesAByteOrderMark) {
  EXPECT_THAT([&] { parse("\xef\xbb\xbf[]"); }, Fails(Errc::malformed_metadata, HasSubstr("byte 0")));
}

TEST_F(JsonHandlerLoad, RefusesANulAndWhatIsBehindIt) {
  EXPECT_THAT([&] { parse(std::string("1\0x", 3)); }, Fails(Errc::malformed_metadata, HasSubstr("byte 1")));
}

TEST_F(JsonHandlerLoad, RefusesAnEmptyText) {
  EXPECT_THAT([&] { parse(""); }, Fails(Errc::malformed_metadata));
}

TEST_F(JsonHandlerLoad, RefusesAnotherRootThanWanted) {
  save(json::object());
  EXPECT_THAT(
      [&] {
        load<json>({"item", AbstractJson(JsonKind::array)});
      },
      Fails(Errc::type_mismatch, HasSubstr("stored is object, wanted array")));
}

TEST_F(JsonHandlerLoad, DescribesTheRoot) {
  save(json::array({1}));
  EXPECT_EQ(metadata<AbstractJson>(), AbstractJson(JsonKind::array));
}

TEST_F(JsonHandlerLoad, DescribesEveryKindOfRoot) {
  EXPECT_EQ(described(" \t\r\n{}"), JsonKind::object);
  EXPECT_EQ(described("\"text\""), JsonKind::string);
  EXPECT_EQ(described("true"), JsonKind::boolean);
  EXPECT_EQ(described("false"), JsonKind::boolean);
  EXPECT_EQ(described("null"), JsonKind::null);
  EXPECT_EQ(described("-1"), JsonKind::number);
  EXPECT_EQ(described("0.5"), JsonKind::number);
  EXPECT_EQ(described("9"), JsonKind::number);
  EXPECT_EQ(described(std::string(4095, ' ') + "1"), JsonKind::number);
  EXPECT_EQ(described(std::string(4096, ' ') + "1"), std::nullopt);
}

TEST_F(JsonHandlerLoad, DescribesNoTextThatBeginsAsNoDocument) {
  for (const char* text : {"", "  ", "x", "+1", "\xef\xbb\xbf[]"}) {
    EXPECT_THAT([&] { described(text); },
                Fails(Errc::malformed_metadata, HasSubstr("data.json: the text is not a JSON")))
        << text;
  }
}

TEST_F(JsonHandlerLoad, ReadsTheBeginningOnlyToDescribeALargeDocument) {
  save_text("[" + std::string(3 << 20, ' ') + "1]");
  std::string text = testing::read_text(item("data.json"));
  text[2 << 20] = 'x';
  testing::write_text(item("data.json"), text);

  EXPECT_EQ(metadata<AbstractJson>().kind, JsonKind::array);
  EXPECT_THAT([&] { load<json>(); }, Fails(Errc::checksum_mismatch));
}

TEST_F(JsonHandlerLoad, NamesTheFileThatIsMissingWhenItDescribes) {
  save(json::array({1}));
  std::filesystem::remove(item("data.json"));

  EXPECT_THAT([&] { metadata<AbstractJson>(); }, Fails(Errc::not_found, HasSubstr("data.json")));
}

TEST_F(JsonHandlerTest, SaysWhatTheDocumentIsAndWhereItsTextLies) {
  save(nlohmann::json::array({1, 2}));

  const Description description = item_metadata().description();

  EXPECT_EQ(description.kind, "JSON array");
  EXPECT_THAT(description.texts, ::testing::ElementsAre("data.json"));
  EXPECT_TRUE(description.says_all);
}

}  // namespace
}  // namespace cairn
