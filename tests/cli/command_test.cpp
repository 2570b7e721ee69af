// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/sharding.hpp"

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::CliResult;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::run_cli;
using ::testing::StartsWith;
using testing::TempDir;

const fs::path kData = testing::test_data() / "safetensors";

class Cli : public ::testing::Test {
 protected:
  Cli() : path_(directory_ / "7") { testing::save_example(path_); }

  /// The file that holds the arrays of `model`.
  [[nodiscard]] fs::path data_file() const {
    for (const auto& entry : fs::directory_iterator(path_ / "model")) {
      if (entry.path().extension() == ".safetensors") {
        return entry.path();
      }
    }
    return {};
  }

  void flip(const fs::path& file, std::size_t position) const {
    std::string text = testing::read_text(file);
    text.at(position) = static_cast<char>(text.at(position) ^ 1);
    testing::write_text(file, text);
  }

  TempDir directory_;
  fs::path path_;
};

/// One line that begins with the tool's name.
auto is_one_line() {
  return MatchesRegex("cairn: [^\n]*\n");
}

TEST_F(Cli, InspectShowsHowArraysAreDivided) {
  const Array whole = Array::zeros({8, 6}, DType::float32);
  const auto rows = std::make_shared<const Sharding>(Sharding::of_spec(Mesh({2}, {"data"}), {{"data"}}));
  std::vector<Shard> shards;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const Box box = rows->boxes(rank, {8, 6})[0].box;
    shards.push_back({box, whole.part(box)});
  }
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<AllInOne>()));
  const fs::path path = directory_ / "sharded";
  save(path, Tree{{"w", ShardedArray({8, 6}, DType::float32, shards, rows)}, {"plain", whole}}, options);

  const CliResult text = run_cli({"inspect", path});
  const CliResult answer = run_cli({"inspect", path, "--json"});

  EXPECT_THAT(text.out, AllOf(HasSubstr(AllInOne().description()), HasSubstr("DIVIDED"),
                              HasSubstr("  w            2  -      spec (data) on mesh (data=2)\n")));
  const auto item = nlohmann::json::parse(answer.out)["checkpointables"]["state"];
  EXPECT_EQ(item["policies"][0]["policy"], AllInOne().description());
  EXPECT_FALSE(item["arrays"][0].contains("parts"));
  EXPECT_EQ(item["arrays"][1]["parts"], 2);
  EXPECT_EQ(item["arrays"][1]["layout"], rows->to_json());
}

TEST_F(Cli, InspectShowsWhichPolicyMadeWhichFile) {
  const Array array = Array::zeros({8, 6}, DType::float32);
  SaveOptions options;
  options.handler_options.set(
      ArrayRules().add("a", std::make_shared<MaxShardSize>(40)).add("b", std::make_shared<AllInOne>()));
  const fs::path path = directory_ / "ruled";
  save(path, Tree{{"a", array}, {"b", array}, {"c", array}}, options);

  const CliResult text = run_cli({"inspect", path});
  const CliResult answer = run_cli({"inspect", path, "--json"});

  EXPECT_THAT(text.out, AllOf(HasSubstr(MaxShardSize(40).description() +
                                        " (data-r00000-001.safetensors, data-r00000-002.safetensors, "
                                        "data-r00000-003.safetensors, data-r00000-004.safetensors and "),
                              HasSubstr(AllInOne().description() + " (data-r00000-")));
  const auto policies = nlohmann::json::parse(answer.out)["checkpointables"]["state"]["policies"];
  ASSERT_EQ(policies.size(), 2u);
  EXPECT_EQ(policies[0]["policy"], MaxShardSize(40).description());
  EXPECT_GT(policies[0]["files"].size(), 4u);
  EXPECT_EQ(policies[1]["policy"], AllInOne().description());
  EXPECT_EQ(policies[1]["files"].size(), 1u);
}

TEST_F(Cli, InspectShowsDocumentsAndWhatArraysHold) {
  const CliResult result = run_cli({"inspect", path_, "--stats"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\n  {\n    \"width\": 512\n  }\n"), HasSubstr("HOLDS"),
                                HasSubstr("params/b    1    3     2     0      0\n")));
}

TEST_F(Cli, InspectSaysWhoseADataFileIs) {
  EXPECT_THAT(run_cli({"inspect", data_file()}).out,
              HasSubstr("a data file of the checkpoint " + path_.string()));
}

TEST_F(Cli, ArraysOfADataFileHaveTheirNamesInTheCheckpoint) {
  EXPECT_THAT(
      run_cli({"inspect", data_file(), "--stats"}).out,
      AllOf(HasSubstr("\n  params/w  float32 "), HasSubstr("\n  params/b    1 "), Not(HasSubstr("~1"))));
  EXPECT_THAT(run_cli({"ls", "--all", data_file()}).out, HasSubstr("state/params/w  float32 "));
  const auto items =
      nlohmann::json::parse(run_cli({"inspect", "--json", data_file()}).out)["checkpointables"];
  EXPECT_EQ(items["state"]["arrays"][1]["name"], "params/w");
}

TEST_F(Cli, InspectFailsWhenWhatArraysHoldCannotBeRead) {
  flip(data_file(), fs::file_size(data_file()) - 1);

  EXPECT_EQ(run_cli({"inspect", path_}).status, 0);
  const CliResult result = run_cli({"inspect", path_, "--stats"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr("checksum mismatch")));
}

TEST_F(Cli, LsShowsCheckpointablesInColumnsWithATotal) {
  const CliResult result = run_cli({"ls", path_});

  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("CHECKPOINTABLE  HANDLER            ARRAYS     SIZE\n"),
                                HasSubstr("config          cairn.json/1            -     14 B\n"),
                                HasSubstr("total           3 checkpointables       2  ")));
}

TEST_F(Cli, LsAllShowsEveryArray) {
  EXPECT_THAT(run_cli({"ls", "--all", path_}).out,
              HasSubstr("model/params/w  float32  [512, 1024]  2.0 MiB\n"));
}

TEST_F(Cli, LsOfADirectoryShowsItsCheckpointsInTheOrderOfTheirNumbers) {
  testing::save_example(directory_ / "10");

  const std::string out = run_cli({"ls", directory_.path()}).out;

  EXPECT_LT(out.find("\n7  "), out.find("\n10  "));
}

TEST_F(Cli, ShowsTheOthersWhenACheckpointableIsDamagedAndFails) {
  fs::remove(path_ / "model" / "index.fb");

  for (const char* command : {"ls", "inspect"}) {
    const CliResult result = run_cli({command, path_});

    EXPECT_EQ(result.status, 1) << command;
    EXPECT_THAT(result.out, AllOf(HasSubstr("config"), HasSubstr("strange"), HasSubstr("model"))) << command;
    EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr("'model'"), HasSubstr("not found"))) << command;
  }
}

TEST_F(Cli, SaysThatADataFileIsCutOrMissing) {
  const fs::path file = data_file();
  for (const bool is_cut : {true, false}) {
    if (is_cut) {
      fs::resize_file(file, 100);
    } else {
      fs::remove(file);
    }
    const std::string what = is_cut ? "100 bytes long instead of " : "is missing";
    for (const char* command : {"ls", "inspect"}) {
      const CliResult result = run_cli({command, path_});

      EXPECT_EQ(result.status, 1) << command;
      EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr(file.string()), HasSubstr(what))) << command;
    }
    EXPECT_THAT(run_cli({"ls", path_}).out, AllOf(HasSubstr("STATE"), HasSubstr("damaged")));
    const auto items = nlohmann::json::parse(run_cli({"inspect", path_, "--json"}).out)["checkpointables"];
    EXPECT_THAT(items["model"]["problem"].get<std::string>(), HasSubstr(what));
    EXPECT_FALSE(items["config"].contains("problem"));
  }
}

TEST_F(Cli, LsOfTheCurrentDirectoryNeedsNoPath) {
  fs::create_directory(directory_ / "empty");
  const std::string command = "cd " + testing::shell_quoted(directory_.path()) + " && ";
  const std::string out = directory_ / "listed";

  ASSERT_EQ(std::system(
                (command + testing::shell_quoted(CAIRN_CLI) + " ls > " + testing::shell_quoted(out)).c_str()),
            0);

  EXPECT_THAT(testing::read_text(out), HasSubstr("\n7  "));
}

TEST_F(Cli, LsOfADirectorySaysHowLongSavesTookAndWhyOneIsDamaged) {
  testing::save_example(directory_ / "8");
  fs::resize_file(directory_ / "8" / "config" / "data.json", 1);

  const CliResult result = run_cli({"ls", directory_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("TOOK"), HasSubstr("WHY"), HasSubstr("config/data.json is missing or of")));
  const auto listed = nlohmann::json::parse(run_cli({"ls", directory_.path(), "--json"}).out)["checkpoints"];
  EXPECT_GE(listed[0]["duration_seconds"].get<double>(), 0);
  EXPECT_FALSE(listed[0].contains("gap_seconds"));
}

TEST_F(Cli, LsGivesTheTimeSinceTheCheckpointBefore) {
  testing::save_example(directory_ / "8");

  const auto listed = nlohmann::json::parse(run_cli({"ls", directory_.path(), "--json"}).out)["checkpoints"];

  EXPECT_GE(listed[1]["gap_seconds"].get<double>(), 0);
}

TEST_F(Cli, InspectTakesPatterns) {
  const auto names = [&](const std::string& pattern) {
    const CliResult result = run_cli({"inspect", path_, pattern, "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    std::string found;
    const auto items = nlohmann::json::parse(result.out)["checkpointables"];
    for (const auto& [item, described] : items.items()) {
      for (const auto& array : described["arrays"]) {
        found += item + ":" + array["name"].get<std::string>() + " ";
      }
    }
    return found;
  };

  EXPECT_EQ(names("model/**/w"), "model:params/w ");
  EXPECT_EQ(names("params/*"), "model:params/b model:params/w ");
  EXPECT_EQ(names("model/params"), "model:params/b model:params/w ");
  EXPECT_EQ(names("config"), "");
}

TEST_F(Cli, InspectNamesAPatternThatMatchesNothing) {
  const CliResult result = run_cli({"inspect", path_, "model/**", "model/params/v*"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr("matches 'model/params/v*'")));
  EXPECT_THAT(run_cli({"inspect", path_, "params/ww"}).err, HasSubstr("did you mean 'params/w'?"));
}

TEST_F(Cli, InspectFoldsArraysAndTellsTotals) {
  Tree layers;
  for (int i = 0; i < 12; ++i) {
    layers[std::to_string(i)] = Tree{{"q", Array::zeros({4, 4}, DType::float32)}};
  }
  save(directory_ / "deep", Tree{{"layers", layers}, {"norm", Array::zeros({4}, DType::int8)}});
  const fs::path path = directory_ / "deep";

  EXPECT_THAT(run_cli({"inspect", path}).out,
              AllOf(HasSubstr("layers/[0-11]/q"), HasSubstr("12 x [4, 4]  768 B\n"), HasSubstr("GROUP"),
                    HasSubstr("layers/**"), HasSubstr("OF DTYPE")));
  EXPECT_THAT(run_cli({"inspect", path, "--all"}).out, HasSubstr("layers/9/q"));
  EXPECT_THAT(run_cli({"inspect", path, "--depth", "2"}).out,
              AllOf(HasSubstr("layers/2/**"), Not(HasSubstr("layers/2/q"))));
  EXPECT_LT(run_cli({"inspect", path, "--all"}).out.find("layers/2/q"),
            run_cli({"inspect", path, "--all"}).out.find("layers/10/q"));
}

TEST_F(Cli, ShowWithoutANameListsTheNames) {
  EXPECT_THAT(run_cli({"show", path_}).out, AllOf(HasSubstr("model/params/w\n"), HasSubstr("config\n")));
  EXPECT_THAT(run_cli({"show", path_, "params/ww"}).err, HasSubstr("did you mean 'params/w'?"));
}

TEST_F(Cli, LsOfADirectoryWithAStraySafetensorsFileListsItsCheckpoints) {
  fs::copy_file(kData / "tiny.safetensors", directory_ / "stray.safetensors");

  const CliResult result = run_cli({"ls", directory_.path()});

  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("1 checkpoint"), HasSubstr("7")));
}

TEST_F(Cli, LsOfADirectoryNamesADamagedCheckpointAndFails) {
  flip(path_ / "checkpoint.json", 40);

  const CliResult result = run_cli({"ls", directory_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("damaged"));
  EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr((path_ / "checkpoint.json").string())));
}

TEST_F(Cli, LsOfADirectoryLeavesOutWhatIsOnlyCalledLikeOneOfOurs) {
  const std::string name = ".tmp-8-01234567-89ab-4cde-8f01-23456789abcd";
  fs::create_directory(directory_ / name);
  testing::write_text(directory_ / name / "COMMIT", "");

  EXPECT_THAT(run_cli({"ls", directory_.path()}).out, Not(HasSubstr(".tmp")));
}

TEST_F(Cli, LsOfADirectorySaysWhereNumbersInNamesCanBeReadInTwoWays) {
  const testing::TempDir root;
  for (const char* name : {"0.2", "0.15", "0.1"}) {
    save(root / name, Tree{{"a", 1}});
  }
  const auto order = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"ls", root.path().string(), "--json"});
    const auto answer = nlohmann::json::parse(run_cli(options).out);
    std::string names = answer["order"].get<std::string>() + ":";
    for (const auto& each : answer["checkpoints"]) {
      names += " " + each["name"].get<std::string>();
    }
    return names;
  };

  EXPECT_EQ(order({}), "by_time: 0.2 0.15 0.1");
  EXPECT_EQ(order({"--numbers", "apart"}), "by_name: 0.1 0.2 0.15");
  EXPECT_EQ(order({"--numbers", "decimal"}), "by_name: 0.1 0.15 0.2");
  EXPECT_THAT(
      run_cli({"ls", root.path()}).out,
      HasSubstr(
          "in the order of their commits: '0.2' is before '0.15' where each run of digits is a number"));
  EXPECT_THAT(run_cli({"ls", root.path(), "--numbers", "apart"}).out, Not(HasSubstr("in the order of")));
  EXPECT_THAT(run_cli({"ls", root.path(), "--numbers", "roman"}).err,
              HasSubstr("'roman' is not apart or decimal"));
}

TEST_F(Cli, InspectShowsArraysValuesAndCustomMetadata) {
  EXPECT_THAT(
      run_cli({"inspect", path_}).out,
      AllOf(HasSubstr("params/w  float32   [512, 1024]  2.0 MiB\n"), HasSubstr("step   integer   100\n"),
            HasSubstr(R"(custom     {"run":"first"})"), HasSubstr("example.strange/1")));
}

TEST_F(Cli, InspectShowsTheFilesOfAHandlerThatItDoesNotKnow) {
  const CliResult result = run_cli({"inspect", path_, "strange"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("strange  example.strange/1  1 B\n"
                                          "  FILE       SIZE\n"
                                          "  value.txt   1 B\n"),
                                Not(HasSubstr("cairn.tree/1"))));
}

TEST_F(Cli, InspectOfAnUnknownNameListsTheKnownOnes) {
  const CliResult result = run_cli({"inspect", path_, "modle"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr("'modle'"), HasSubstr("did you mean 'model'?"),
                                HasSubstr("config, model, strange")));
}

TEST_F(Cli, InspectEscapesControlCharactersOfNames) {
  const CliResult result = run_cli({"inspect", kData / "unicode_names.safetensors"});

  EXPECT_THAT(result.out, AllOf(HasSubstr("\\x00nul\\x1f"), HasSubstr("\\u202e")));
}

TEST_F(Cli, VerifyPraisesASoundCheckpoint) {
  const CliResult result = run_cli({"verify", path_});

  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("every byte is as it was written"));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(Cli, VerifySaysThatForeignFilesHaveNoChecksums) {
  const std::string file = kData / "tiny.safetensors";

  EXPECT_THAT(run_cli({"verify", file}).out,
              MatchesRegex(file + ": headers are valid; .* B of data have no checksums to verify\n"));
}

TEST_F(Cli, VerifyNamesTheFileAndTheChunkThatAreDamaged) {
  flip(data_file(), (1 << 20) + 1);

  const CliResult result = run_cli({"verify", path_});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr(data_file().string()), HasSubstr("chunk 1 ")));
}

TEST_F(Cli, VerifyListsAllProblemsOnStandardOutput) {
  flip(data_file(), 0);
  flip(path_ / "config/data.json", 0);

  const CliResult result = run_cli({"verify", path_});

  EXPECT_THAT(result.out, AllOf(HasSubstr("config/data.json"), HasSubstr(data_file().string())));
  EXPECT_THAT(result.err, HasSubstr("(and 1 more problem)"));
}

TEST_F(Cli, VerifyJsonGivesTheChunkAndItsRange) {
  flip(data_file(), (1 << 20) + 1);

  const auto problem = nlohmann::json::parse(run_cli({"verify", "--json", path_}).out)["problems"][0];

  EXPECT_EQ(problem["damage"], "altered");
  EXPECT_EQ(problem["chunk"], 1);
  EXPECT_EQ(problem["begin"], 1 << 20);
}

TEST_F(Cli, VerifyOfACheckpointablesDirectoryLeavesTheOthersAlone) {
  flip(path_ / "config/data.json", 0);

  EXPECT_EQ(run_cli({"verify", path_ / "model"}).status, 0);
  EXPECT_EQ(run_cli({"verify", path_ / "config"}).status, 1);
}

TEST_F(Cli, NamesAPathThatIsNotThere) {
  const CliResult result = run_cli({"ls", path_ / "nothing"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr((path_ / "nothing").string())));
}

TEST_F(Cli, NamesAFileThatIsNoCheckpoint) {
  const CliResult result = run_cli({"inspect", kData / "README.md"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr("README.md")));
}

TEST_F(Cli, EscapesControlCharactersInErrors) {
  EXPECT_THAT(run_cli({"ls", "/no\x1b[31m\nthing"}).err,
              AllOf(is_one_line(), HasSubstr("/no\\x1b[31m\\nthing")));
}

TEST_F(Cli, AnswersWrongUsageWithTwo) {
  EXPECT_EQ(run_cli({}).status, 2);
  EXPECT_EQ(run_cli({"inspect"}).status, 2);
  EXPECT_EQ(run_cli({"remove", path_}).status, 2);
  EXPECT_EQ(run_cli({"ls", "--fast", path_}).status, 2);
  EXPECT_EQ(run_cli({"verify", "--threads", "many", path_}).status, 2);
}

TEST_F(Cli, ExplainsEveryCommand) {
  for (const char* command : {"ls", "inspect", "verify", "diff", "recover", "prune"}) {
    const CliResult result = run_cli({command, "--help"});
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.out, HasSubstr("--json"));
  }
}

TEST_F(Cli, IsQuietWhenTheReaderHasSeenEnough) {
  const CliResult result = run_cli({"inspect", kData / "mixed_dtypes.safetensors"}, "| true");

  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(Cli, SaysWhenStandardOutputIsFull) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ls", path_}, {"--help"}, {"ls", "--help"}, {"--version"}}) {
    const CliResult result = run_cli(arguments, "> /dev/full; s=$?; (exit $s)");

    EXPECT_EQ(result.status, 1) << arguments[0];
    EXPECT_THAT(result.err, AllOf(is_one_line(), HasSubstr("standard output")));
  }
}

}  // namespace
}  // namespace cairn::cli
