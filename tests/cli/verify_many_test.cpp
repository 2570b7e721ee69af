// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"

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
using testing::TempDir;

/// A directory of three checkpoints: 1, 2 and 10.
class CliVerifyMany : public ::testing::Test {
 protected:
  CliVerifyMany() {
    for (const char* name : {"1", "2", "10"}) {
      testing::save_example(root_ / name);
    }
  }

  void damage(const std::string& name) const {
    const fs::path file = root_ / name / "config/data.json";
    std::string text = testing::read_text(file);
    text.front() = '[';
    testing::write_text(file, text);
  }

  TempDir root_;
};

TEST_F(CliVerifyMany, VerifiesEveryCheckpointOfADirectoryInTheOrderOfTheirNumbers) {
  const CliResult result = run_cli({"verify", root_.path()});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_LT(result.out.find(root_ / "2"), result.out.find(root_ / "10"));
  EXPECT_THAT(result.out, HasSubstr("3 checkpoints, 6.0 MiB checked: 3 sound, 0 not\n"));
}

TEST_F(CliVerifyMany, VerifiesSeveralPaths) {
  const CliResult result = run_cli({"verify", root_ / "1", root_ / "10"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("2 checkpoints, "), Not(HasSubstr((root_ / "2").string()))));
}

TEST_F(CliVerifyMany, FindsTheDamagedOneAmongThem) {
  damage("2");

  const CliResult result = run_cli({"verify", root_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("2 sound, 1 not\n"), HasSubstr("altered     " + (root_ / "2").string())));
  EXPECT_THAT(result.err, HasSubstr((root_ / "2/config/data.json").string()));
}

TEST_F(CliVerifyMany, CountsTheProblemsOfAll) {
  damage("1");
  damage("10");

  EXPECT_THAT(run_cli({"verify", root_.path()}).err, HasSubstr("(and 1 more problem)"));
}

TEST_F(CliVerifyMany, GoesOnAfterACheckpointThatCannotBeOpened) {
  testing::write_text(root_ / "1/checkpoint.json", "{");

  const CliResult result = run_cli({"verify", root_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("2 sound, 1 not\n"));
  EXPECT_THAT(result.err, HasSubstr((root_ / "1/checkpoint.json").string()));
}

TEST_F(CliVerifyMany, GoesOnAfterAPathThatIsNotThere) {
  const CliResult result = run_cli({"verify", root_ / "none", root_ / "2"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("1 sound, 1 not\n"));
  EXPECT_THAT(result.err, HasSubstr((root_ / "none").string()));
}

TEST_F(CliVerifyMany, GivesTheSameAnswerHoweverManyAtOnce) {
  damage("2");
  const std::string one = run_cli({"verify", "--jobs", "1", "--threads", "1", root_.path()}).out;

  for (const char* jobs : {"0", "2", "100"}) {
    EXPECT_EQ(run_cli({"verify", "--jobs", jobs, root_.path()}).out, one) << jobs;
  }
}

TEST_F(CliVerifyMany, JsonListsTheCheckpoints) {
  damage("2");

  const json answer = json::parse(run_cli({"verify", "--json", root_.path()}).out);

  EXPECT_EQ(answer["is_sound"], false);
  ASSERT_EQ(answer["checkpoints"].size(), 3u);
  EXPECT_EQ(answer["checkpoints"][0]["is_sound"], true);
  EXPECT_EQ(answer["checkpoints"][1]["problems"][0]["file"], "config/data.json");
}

TEST_F(CliVerifyMany, JsonGivesTheProblemOfOneThatCannotBeOpened) {
  const json answer = json::parse(run_cli({"verify", "--json", root_ / "none", root_ / "2"}).out);

  EXPECT_THAT(answer["checkpoints"][0]["problem"].get<std::string>(), HasSubstr("none"));
  EXPECT_EQ(answer["checkpoints"][0]["is_sound"], false);
}

TEST_F(CliVerifyMany, TakesADirectoryOfOneCheckpointForADirectory) {
  fs::remove_all(root_ / "1");
  fs::remove_all(root_ / "2");

  EXPECT_THAT(run_cli({"verify", root_.path()}).out, HasSubstr("1 checkpoint, "));
}

TEST_F(CliVerifyMany, RefusesADirectoryWithoutCheckpoints) {
  fs::create_directory(root_ / "empty");

  const CliResult result = run_cli({"verify", root_ / "empty"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr((root_ / "empty").string()));
}

}  // namespace
}  // namespace cairn::cli
