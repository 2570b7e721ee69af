// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/handlers/json.hpp"

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::CliResult;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::run_cli;
using ::testing::StartsWith;
using testing::TempDir;

const fs::path kForeignFiles = testing::test_data() / "safetensors";

/// Two checkpoints, `a` and `b`, that each test saves as it likes.
class CliDiff : public ::testing::Test {
 protected:
  CliDiff() : context_(options()) {}

  static ContextOptions options() {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.registry.add<testing::StrangeHandler>();
    return options;
  }

  void save(const std::string& name, const Tree& tree, const std::string& custom = "null") {
    SaveOptions save_options;
    save_options.custom_metadata = custom;
    save_checkpointables(directory_ / name, {{"model", tree}}, save_options, context_);
  }

  void save_json(const std::string& name, const json& document) {
    save_checkpointables(directory_ / name, {{"config", document}}, {}, context_);
  }

  [[nodiscard]] CliResult diff(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"diff", directory_ / "a", directory_ / "b"};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }

  /// The differences as JSON.
  [[nodiscard]] json differences(std::vector<std::string> more = {}) {
    more.push_back("--json");
    const CliResult result = diff(std::move(more));
    EXPECT_NE(result.status, 2) << result.err;
    const json answer = json::parse(result.out);
    EXPECT_EQ(answer["is_equal"], answer["differences"].empty());
    EXPECT_EQ(result.status, answer["differences"].empty() ? 0 : 1);
    return answer["differences"];
  }

  TempDir directory_;
  Context context_;
};

Tree weights(std::vector<float> values) {
  return {{"params", {{"w", Array::adopt(std::move(values))}}}, {"step", 100}};
}

TEST_F(CliDiff, ComparesWhatIsCalledOtherwise) {
  save("a", {{"module.w", std::vector<float>{1, 2}}, {"step", 1}});
  save("b", {{"w", std::vector<float>{1, 3}}, {"steps", 1}});

  const json found = differences({"--strip", "module", "--rename", "steps=step"});

  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["name"], "model/w");
  EXPECT_EQ(found[0]["differing"], 1);
}

TEST_F(CliDiff, RefusesARenameThatMatchesNothing) {
  save("a", {{"w", 1}});
  save("b", {{"w", 1}});

  const CliResult result = diff({"--strip", "module"});

  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("the rename 'module.**=**' matches no path that is stored"));
}

TEST_F(CliDiff, FindsNoneBetweenEqualCheckpoints) {
  testing::save_example(directory_ / "a");
  testing::save_example(directory_ / "b");

  const CliResult result = diff();

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no difference: 3 checkpointables, 2 arrays"));
}

TEST_F(CliDiff, ReadsNoDataWhoseHashesAreTheSame) {
  save("a", weights({1, 2, 3}));
  save("b", weights({1, 2, 3}));

  const json answer = json::parse(diff({"--json"}).out);

  EXPECT_EQ(answer["compared_bytes"], 0);
  EXPECT_GT(answer["same_files_bytes"], 12);
}

TEST_F(CliDiff, SaysFirstThatItHasReadNoValues) {
  save("a", weights({1, 2, 3}));
  save("b", weights({1, 2, 3}));

  EXPECT_THAT(diff().out, StartsWith("no values were read: the files of both have the same hashes; --read "));
  EXPECT_THAT(diff({"--metadata"}).out, StartsWith("no values were read: "));
  EXPECT_FALSE(json::parse(diff({"--json"}).out)["has_read_values"].get<bool>());
}

TEST_F(CliDiff, ReadsWhatHasTheSameHashesWhenAsked) {
  save("a", weights({1, 2, 3}));
  save("b", weights({1, 2, 3}));

  const json answer = json::parse(diff({"--read", "--json"}).out);

  EXPECT_TRUE(answer["is_equal"].get<bool>());
  EXPECT_EQ(answer["compared_bytes"], 12);
  EXPECT_EQ(answer["same_files_bytes"], 0);
  EXPECT_TRUE(answer["has_read_values"].get<bool>());
  EXPECT_THAT(diff({"--read"}).out, StartsWith("A  "));
}

TEST_F(CliDiff, ReadsFilesThatNoHandlerDescribesWhenAsked) {
  testing::save_example(directory_ / "a");
  testing::save_example(directory_ / "b");
  const json before = json::parse(diff({"--json"}).out);

  const json answer = json::parse(diff({"--read", "--json"}).out);

  EXPECT_TRUE(answer["is_equal"].get<bool>());
  EXPECT_EQ(before["compared_bytes"], 0);
  EXPECT_GT(answer["compared_bytes"], (1 << 21) + 12) << "the arrays, and the file of 'strange'";
}

TEST_F(CliDiff, TakesATolerancePartOfTheLargerNumber) {
  save("a", {{"w", std::vector<double>{1000, 1, 0}}, {"rate", 200.0}, {"count", 1000}});
  save("b", {{"w", std::vector<double>{1001, 1.0005, 0}}, {"rate", 200.1}, {"count", 1001}});

  EXPECT_TRUE(differences({"--relative", "0.001"}).empty());
  EXPECT_EQ(differences({"--relative", "0.0006"}).size(), 2U) << "1001 of w, and the count";
  EXPECT_TRUE(differences({"--relative", "0.0006", "--tolerance", "1"}).empty());
}

TEST_F(CliDiff, FindsNothingCloseToAnInfinityButItself) {
  const double infinity = std::numeric_limits<double>::infinity();
  save("a", {{"w", std::vector<double>{infinity, infinity, 3}}});
  save("b", {{"w", std::vector<double>{infinity, 1, 4}}});

  const json found = differences({"--relative", "0.5"});

  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["differing"], 1);
}

TEST_F(CliDiff, ShowsTheLargestDifferencesOnlyWhenAsked) {
  save("a", {{"small", std::vector<double>{1}}, {"large", std::vector<double>{1}}, {"gone", 1}});
  save("b", {{"small", std::vector<double>{2}}, {"large", std::vector<double>{9}}});

  const CliResult result = diff({"--top", "2"});
  const json answer = json::parse(diff({"--top", "2", "--json"}).out);

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("… and 1 more\n"), HasSubstr("3 differences: "),
                                Not(HasSubstr("model/small"))));
  ASSERT_EQ(answer["differences"].size(), 2U);
  EXPECT_EQ(answer["differences"][0]["name"], "model/gone");
  EXPECT_EQ(answer["differences"][1]["name"], "model/large");
  EXPECT_EQ(answer["differences_left_out"], 1);
}

TEST_F(CliDiff, CountsTheElementsThatDifferAndTellsByHowMuch) {
  save("a", weights({1, 2, 3}));
  save("b", weights({1, 2.5, 3.25}));

  const CliResult result = diff();

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("value   model/params/w  2 of 3 elements, by 0.5 at most\n"),
                    HasSubstr("1 difference: 1 checkpointable, 1 array, 12 B of values compared")));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(CliDiff, JsonGivesTheCountsOfAnArray) {
  save("a", weights({1, 2, 3}));
  save("b", weights({1, 2.5, 3.25}));

  EXPECT_EQ(differences(), json::parse(R"([{"aspect": "value", "name": "model/params/w", "elements": 3,
                                            "differing": 2, "largest": 0.5, "has_nan": false}])"));
}

TEST_F(CliDiff, OverlooksWhatIsWithinTheTolerance) {
  save("a", weights({1, 2, 3}));
  save("b", weights({1, 2.25, 3.5}));

  EXPECT_EQ(differences({"--tolerance", "0.5"}), json::array());
  EXPECT_EQ(differences({"--tolerance", "0.25"})[0]["differing"], 1);
}

TEST_F(CliDiff, ToleranceAppliesToScalarsToo) {
  save("a", Tree{{"rate", 0.5}});
  save("b", Tree{{"rate", 0.625}});

  EXPECT_EQ(differences({"--tolerance", "0.125"}), json::array());
  EXPECT_EQ(differences({"--tolerance", "0.1"}).size(), 1u);
}

TEST_F(CliDiff, ComparesBitsUnlessThereIsATolerance) {
  save("a", weights({0.0F, std::nanf("1")}));
  save("b", weights({-0.0F, std::nanf("2")}));

  EXPECT_THAT(diff().out, HasSubstr("2 of 2 elements, though the numbers are equal"));
  EXPECT_EQ(differences({"--tolerance", "0"}), json::array());
}

TEST_F(CliDiff, NoToleranceCoversNan) {
  save("a", weights({1, std::nanf("")}));
  save("b", weights({1, 2}));

  const json found = differences({"--tolerance", "1000"});

  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["differing"], 1);
  EXPECT_EQ(found[0]["has_nan"], true);
}

TEST_F(CliDiff, ToleranceDoesNotRoundLargeIntegers) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 53;
  constexpr std::uint64_t kLargest = ~std::uint64_t{0};
  save("a", Tree{{"signed", kLarge}, {"unsigned", kLargest}, {"below", std::int64_t{-1}}});
  save("b", Tree{{"signed", kLarge + 1}, {"unsigned", kLargest - 1}, {"below", 0}});

  EXPECT_EQ(differences({"--tolerance", "0.5"}).size(), 3u);
  EXPECT_EQ(differences({"--tolerance", "1"}), json::array());
}

TEST_F(CliDiff, TellsValuesOfScalars) {
  save("a", Tree{{"step", 100}, {"note", "hi"}, {"done", false}});
  save("b", Tree{{"step", 101}, {"note", "ho"}, {"done", true}});

  EXPECT_THAT(diff().out,
              AllOf(HasSubstr("model/done  false | true\n"), HasSubstr("model/note  \"hi\" | \"ho\"\n"),
                    HasSubstr("model/step  100 | 101\n")));
}

TEST_F(CliDiff, SeesBytesOfTheSameLength) {
  save("a", Tree{{"key", Bytes{std::byte{1}, std::byte{2}}}});
  save("b", Tree{{"key", Bytes{std::byte{1}, std::byte{3}}}});

  EXPECT_EQ(differences()[0]["name"], "model/key");
}

TEST_F(CliDiff, NamesWhatOnlyOneHas) {
  save("a", Tree{{"x", 1}, {"same", 1}});
  save("b", Tree{{"same", 1}, {"y", Array::zeros({2}, DType::int8)}});

  EXPECT_EQ(differences(), json::parse(R"([{"aspect": "only in A", "name": "model/x", "a": "1"},
                                            {"aspect": "only in B", "name": "model/y", "b": "int8 [2]"}])"));
}

TEST_F(CliDiff, NamesCheckpointablesThatOnlyOneHas) {
  testing::save_example(directory_ / "a");
  save("b", weights({1}));

  EXPECT_THAT(diff().out, AllOf(HasSubstr("only in A  config "), HasSubstr("only in A  strange ")));
}

TEST_F(CliDiff, NamesDtypesShapesAndKinds) {
  save("a", Tree{{"d", Array::zeros({2}, DType::float32)}, {"s", Array::zeros({2}, DType::int8)}, {"k", 1}});
  save("b",
       Tree{{"d", Array::zeros({2}, DType::bfloat16)}, {"s", Array::zeros({3}, DType::int8)}, {"k", "1"}});

  EXPECT_EQ(differences(),
            json::parse(R"([{"aspect": "dtype", "name": "model/d", "a": "float32", "b": "bfloat16"},
                            {"aspect": "kind", "name": "model/k", "a": "integer", "b": "string"},
                            {"aspect": "shape", "name": "model/s", "a": "[2]", "b": "[3]"}])"));
}

TEST_F(CliDiff, NamesHandlersThatDiffer) {
  save_json("a", {{"x", 1}});
  save_checkpointables(directory_ / "b", {{"config", weights({1})}}, {}, context_);

  EXPECT_THAT(diff().out, HasSubstr("handler  config  cairn.json/1 | cairn.tree/1\n"));
}

TEST_F(CliDiff, FindsThePlaceInsideJson) {
  save_json("a", {{"net", {{"width", 512}, {"layers", {1, 2, 3}}}}, {"old", true}});
  save_json("b", {{"net", {{"width", 256}, {"layers", {1, 7, 3}}}}, {"new", nullptr}});

  EXPECT_EQ(differences(),
            json::parse(R"([{"aspect": "value", "name": "config/net/layers/1", "a": "2", "b": "7"},
                                            {"aspect": "value", "name": "config/net/width", "a": "512", "b": "256"},
                                            {"aspect": "only in A", "name": "config/old", "a": "true"},
                                            {"aspect": "only in B", "name": "config/new", "b": "null"}])"));
}

TEST_F(CliDiff, TellsJsonNumbersApartThatAreEqualAndLoadAsOthers) {
  save_json("a", {{"list", {1, 2}}, {"zero", 0.0}});
  save_json("b", {{"list", {1, 2.0}}, {"zero", -0.0}});

  EXPECT_EQ(differences(), json::parse(R"([{"aspect": "value", "name": "config/list/1", "a": "2", "b": "2.0"},
                            {"aspect": "value", "name": "config/zero", "a": "0.0", "b": "-0.0"}])"));
}

TEST_F(CliDiff, TellsArraysOfJsonApartByTheirLength) {
  save_json("a", {{"list", json::array()}, {"same", {{"x", json::object()}}}});
  save_json("b", {{"list", {1}}, {"same", {{"x", json::object()}}}});

  EXPECT_EQ(differences(),
            json::parse(R"([{"aspect": "value", "name": "config/list", "a": "[]", "b": "[1]"}])"));
}

TEST_F(CliDiff, ComparesCustomMetadata) {
  save("a", weights({1}), R"({"run": "first", "lr": 1})");
  save("b", weights({1}), R"({"run": "second", "lr": 1})");

  EXPECT_EQ(differences(), json::parse(R"([{"aspect": "metadata", "name": "custom metadata/run",
                                            "a": "\"first\"", "b": "\"second\""}])"));
}

TEST_F(CliDiff, ComparesFilesOfHandlersThatItDoesNotKnow) {
  testing::Strange strange;
  save_checkpointables(directory_ / "a", {{"it", strange}}, {}, context_);
  strange.value = 8;
  save_checkpointables(directory_ / "b", {{"it", strange}}, {}, context_);

  EXPECT_EQ(differences()[0],
            json::parse(R"({"aspect": "file", "name": "it/value.txt", "a": "1 B", "b": "1 B"})"));
}

TEST_F(CliDiff, TellsKindsOfJsonApart) {
  save_json("a", {{"x", 1}});
  save_json("b", {1, 2});

  EXPECT_EQ(differences({"--metadata"}),
            json::parse(R"([{"aspect": "kind", "name": "config", "a": "JSON object", "b": "JSON array"}])"));
}

TEST_F(CliDiff, TellsEmptyMapsListsAndNullApart) {
  save("a", Tree{{"x", Tree::map()}, {"y", Tree::list()}, {"z", nullptr}, {"same", Tree::list()}});
  save("b", Tree{{"x", Tree::list()}, {"y", nullptr}, {"z", Tree::map()}, {"same", Tree::list()}});

  EXPECT_THAT(diff().out,
              AllOf(HasSubstr("kind    model/x  map | list\n"), HasSubstr("model/y  list | null\n"),
                    HasSubstr("model/z  null | map\n"), HasSubstr("3 differences")));
}

TEST_F(CliDiff, ComparesNoValuesWhenOnlyMetadataIsWanted) {
  save("a", weights({1, 2}));
  save("b", weights({3, 4}));

  EXPECT_EQ(differences({"--metadata"}), json::array());
}

TEST_F(CliDiff, ReadsOnlyArraysOfTheSameForm) {
  save("a", Tree{{"s", Array::zeros({2}, DType::int8)}, {"w", Array::adopt(std::vector<float>{1})}});
  save("b", Tree{{"s", Array::zeros({3}, DType::int8)}, {"w", Array::adopt(std::vector<float>{2})}});

  EXPECT_EQ(json::parse(diff({"--json"}).out)["compared_bytes"], 4);
}

TEST_F(CliDiff, ComparesMoreThanFitsInOneBatch) {
  const auto large = [](float last) {
    Tree tree;
    for (const char* name : {"a", "b", "c"}) {
      std::vector<float> values(10 << 20, 1.0F);
      values.back() = last;
      tree[name] = Array::adopt(std::move(values));
    }
    return tree;
  };
  save("a", large(1));
  save("b", large(2));

  const json found = differences();

  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[2]["differing"], 1);
}

TEST_F(CliDiff, ComparesElementsOfLists) {
  save("a", Tree{{"layers", Tree::list({Tree(Array::adopt(std::vector<int>{1})), Tree(2)})}});
  save("b", Tree{{"layers", Tree::list({Tree(Array::adopt(std::vector<int>{3})), Tree(2)})}});

  EXPECT_EQ(differences()[0]["name"], "model/layers/0");
}

TEST_F(CliDiff, ComparesSingleArrays) {
  const std::vector<int> one{1};
  const std::vector<int> two{2};
  save_checkpointables(directory_ / "a", {{"x", one}}, {}, context_);
  save_checkpointables(directory_ / "b", {{"x", two}}, {}, context_);

  EXPECT_EQ(differences()[0]["name"], "x");
}

TEST_F(CliDiff, ComparesWhatASaveMadeOfForeignFilesWithThem) {
  save_checkpointables(directory_ / "a", {{"model", load(kForeignFiles / "hf_sharded")}}, {}, context_);

  const CliResult result = run_cli({"diff", directory_ / "a", kForeignFiles / "hf_sharded"});

  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("14 arrays"));
}

TEST_F(CliDiff, ComparesForeignFilesWithEachOther) {
  EXPECT_EQ(run_cli({"diff", kForeignFiles / "tiny.safetensors", kForeignFiles / "tiny.safetensors"}).status,
            0);
  EXPECT_EQ(run_cli({"diff", kForeignFiles / "tiny.safetensors", kForeignFiles / "mixed_dtypes.safetensors"})
                .status,
            1);
}

TEST_F(CliDiff, ComparesDirectoriesOfCheckpointablesWhateverTheirNames) {
  save_checkpointables(directory_ / "a", {{"model", weights({1})}, {"ema", weights({1})}}, {}, context_);

  EXPECT_EQ(run_cli({"diff", directory_ / "a/model", directory_ / "a/ema"}).status, 0);
}

TEST_F(CliDiff, AnswersTwoWhenItCannotTell) {
  save("a", weights({1}));

  const CliResult result = diff();

  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr((directory_ / "b").string()));
}

TEST_F(CliDiff, AnswersTwoWhenDataIsDamaged) {
  save("a", weights({1}));
  save("b", weights({2}));
  for (const auto& entry : fs::directory_iterator(directory_ / "b/model")) {
    if (entry.path().extension() == ".safetensors") {
      std::string text = testing::read_text(entry.path());
      text.back() = static_cast<char>(text.back() ^ 1);
      testing::write_text(entry.path(), text);
    }
  }

  const CliResult result = diff();

  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("safetensors"));
}

TEST_F(CliDiff, RefusesAToleranceThatIsNone) {
  EXPECT_EQ(diff({"--tolerance", "-1"}).status, 2);
  EXPECT_EQ(diff({"--tolerance", "1", "--metadata"}).status, 2);
}

}  // namespace
}  // namespace cairn::cli
