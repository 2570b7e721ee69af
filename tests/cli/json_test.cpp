// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::run_cli;
using testing::TempDir;

const std::filesystem::path kFiles = testing::test_data() / "safetensors";

/// One checkpoint for all tests that only read it.
class CliJson : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TempDir;
    testing::save_example(path());
  }

  static void TearDownTestSuite() {
    delete directory_;
    directory_ = nullptr;
  }

  static std::filesystem::path path() { return *directory_ / "7"; }

  static json ask(std::vector<std::string> words) {
    words.push_back("--json");
    const testing::CliResult result = run_cli(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out);
  }

 private:
  static TempDir* directory_;
};

TempDir* CliJson::directory_ = nullptr;

TEST_F(CliJson, InspectListsArraysAsPromised) {
  const json answer = ask({"inspect", path()});

  EXPECT_EQ(answer["checkpointables"]["model"]["arrays"],
            json::parse(R"([{"name": "params/b", "dtype": "float32", "shape": [3], "bytes": 12},
                            {"name": "params/w", "dtype": "float32", "shape": [512, 1024], "bytes": 2097152}])"));
}

TEST_F(CliJson, InspectTellsWhatArraysHold) {
  const json arrays = ask({"inspect", path(), "model", "--stats"})["checkpointables"]["model"]["arrays"];

  EXPECT_EQ(arrays[0]["stats"], json::parse(R"({"min": 1, "max": 3, "mean": 2, "nans": 0, "zeros": 0})"));
  EXPECT_EQ(arrays[1]["stats"],
            json::parse(R"({"min": 1.5, "max": 1.5, "mean": 1.5, "nans": 0, "zeros": 0})"));
}

TEST_F(CliJson, InspectShowsDocuments) {
  EXPECT_EQ(ask({"inspect", path()})["checkpointables"]["config"]["documents"],
            json::parse(R"({"data.json": {"width": 512}})"));
}

TEST_F(CliJson, InspectSaysWhoseADataFileIs) {
  const json answer = ask({"inspect", path() / "model" / "data-r00000-000.safetensors"});

  EXPECT_EQ(answer["checkpoint"], path().string());
  EXPECT_FALSE(ask({"inspect", kFiles / "tiny.safetensors"}).contains("checkpoint"));
}

TEST_F(CliJson, InspectTellsTheHandlerOfEveryCheckpointable) {
  const json items = ask({"inspect", path()})["checkpointables"];

  EXPECT_EQ(items["model"]["handler"], "cairn.tree/1");
  EXPECT_EQ(items["config"]["handler"], "cairn.json/1");
  EXPECT_EQ(items["strange"]["handler"], "example.strange/1");
}

TEST_F(CliJson, InspectGivesSmallValuesOfTrees) {
  EXPECT_EQ(ask({"inspect", path()})["checkpointables"]["model"]["values"],
            json::parse(R"([{"name": "note", "kind": "string", "value": "hi"},
                            {"name": "rate", "kind": "floating", "value": 0.5},
                            {"name": "step", "kind": "integer", "value": 100}])"));
}

TEST_F(CliJson, InspectTellsWhatTheCheckpointSaysOfItself) {
  const json answer = ask({"inspect", path()});

  EXPECT_EQ(answer["custom_metadata"], json({{"run", "first"}}));
  EXPECT_EQ(answer["format_version"], 1);
  EXPECT_EQ(answer["uuid"].get<std::string>().size(), 36u);
  EXPECT_THAT(answer["committed"].get<std::string>(), HasSubstr("Z"));
}

TEST_F(CliJson, InspectListsTheFilesOfWhatItDoesNotKnow) {
  const json strange = ask({"inspect", path()})["checkpointables"]["strange"];

  EXPECT_EQ(strange["files"], json::parse(R"([{"name": "value.txt", "bytes": 1}])"));
  EXPECT_FALSE(strange.contains("problem"));
}

TEST_F(CliJson, InspectOfANameLeavesTheOthersOut) {
  const json items = ask({"inspect", path(), "config"})["checkpointables"];

  EXPECT_EQ(items.size(), 1u);
  EXPECT_EQ(items["config"]["kind"], "JSON object");
}

TEST_F(CliJson, InspectTakesTheDirectoryOfACheckpointable) {
  const json items = ask({"inspect", path() / "model"})["checkpointables"];

  EXPECT_EQ(items.size(), 1u);
  EXPECT_EQ(items["model"]["arrays"].size(), 2u);
}

TEST_F(CliJson, InspectShowsASafetensorsFileAsOneState) {
  const json items = ask({"inspect", kFiles / "tiny.safetensors"})["checkpointables"];

  EXPECT_EQ(items["state"]["arrays"],
            json::parse(R"([{"name": "x", "dtype": "float32", "shape": [3], "bytes": 12}])"));
}

TEST_F(CliJson, InspectShowsAHuggingFaceFolderAsOneState) {
  const json items = ask({"inspect", kFiles / "hf_sharded"})["checkpointables"];

  EXPECT_EQ(items.size(), 1u);
  EXPECT_EQ(items["state"]["arrays"].size(), 14u);
}

TEST_F(CliJson, InspectKeepsNamesThatAreNoPlainText) {
  EXPECT_EQ(
      ask({"inspect", kFiles / "unicode_names.safetensors"})["checkpointables"]["state"]["arrays"].size(),
      24u);
}

TEST_F(CliJson, LsCountsArraysAndBytes) {
  const json items = ask({"ls", path()})["checkpointables"];

  EXPECT_EQ(items["model"]["array_count"], 2);
  EXPECT_GT(items["model"]["bytes"], 2097164);
  EXPECT_FALSE(items["model"].contains("arrays"));
}

TEST_F(CliJson, LsAllListsTheArraysToo) {
  EXPECT_EQ(ask({"ls", "--all", path()})["checkpointables"]["model"]["arrays"].size(), 2u);
}

TEST_F(CliJson, LsOfADirectoryListsItsCheckpoints) {
  const json checkpoints = ask({"ls", path().parent_path()})["checkpoints"];

  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_EQ(checkpoints[0]["name"], "7");
  EXPECT_EQ(checkpoints[0]["checkpointables"], 3);
}

TEST_F(CliJson, VerifySaysThatAllIsSound) {
  const json answer = ask({"verify", path()});

  EXPECT_EQ(answer["is_sound"], true);
  EXPECT_EQ(answer["problem_count"], 0);
  EXPECT_GT(answer["bytes"], 2097164);
}

TEST_F(CliJson, VerifyOfForeignFilesSaysThatNothingVouchesForThem) {
  EXPECT_EQ(ask({"verify", kFiles / "hf_sharded"})["has_checksums"], false);
}

}  // namespace
}  // namespace cairn::cli
