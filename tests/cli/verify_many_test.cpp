// SPDX-License-Identifier: Apache-2.0
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/uuid.hpp"
#include "support/temp_dir.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::CliResult;
using ::testing::HasSubstr;
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

TEST_F(CliVerifyMany, CountsNoCheckpointInADirectoryWithoutAny) {
  fs::create_directory(root_ / "empty");

  const CliResult result = run_cli({"verify", root_ / "empty"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("0 checkpoints, 0 B checked: 0 sound, 0 not\n"));
  EXPECT_THAT(run_cli({"ls", root_ / "empty"}).out, HasSubstr("0 checkpoints"));
  EXPECT_EQ(json::parse(run_cli({"verify", "--json", root_ / "empty"}).out)["checkpoints"].size(), 0u);
}

TEST_F(CliVerifyMany, NamesACheckpointThatHasLostItsCommit) {
  fs::remove(root_ / "2/COMMIT");

  const CliResult result = run_cli({"verify", root_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("3 checkpoints, 4.0 MiB checked: 2 sound, 1 not\n"));
  EXPECT_THAT(result.err, AllOf(HasSubstr((root_ / "2").string()), HasSubstr("2: COMMIT is missing")));
  EXPECT_EQ(run_cli({"verify", root_ / "2"}).status, 1);
}

TEST_F(CliVerifyMany, LsNamesACheckpointThatHasLostItsCommit) {
  fs::remove(root_ / "2/COMMIT");

  const CliResult result = run_cli({"ls", root_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("2           damaged"), HasSubstr("total       3 checkpoints")));
  EXPECT_THAT(result.err, HasSubstr("2: COMMIT is missing"));
}

TEST_F(CliVerifyMany, NamesACheckpointThatHasLostAFile) {
  fs::remove(root_ / "2/config/data.json");

  const CliResult result = run_cli({"verify", root_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("missing     " + (root_ / "2/config/data.json").string()));
  EXPECT_EQ(run_cli({"ls", root_.path()}).status, 1);
}

TEST_F(CliVerifyMany, ListsWhatASaveHasLeftAndDoesNotCountIt) {
  const std::string left =
      store::temporary_path(root_ / "3", store::make_uuid(store::system_random)).filename();
  fs::create_directory(root_ / left);

  const CliResult result = run_cli({"verify", root_.path()});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr(left + ": abandoned: "), HasSubstr("3 checkpoints, ")));
  EXPECT_THAT(run_cli({"ls", root_.path()}).out, HasSubstr(left + "  abandoned"));
  EXPECT_EQ(json::parse(run_cli({"verify", "--json", root_.path()}).out)["others"].size(), 1u);
  EXPECT_EQ(json::parse(run_cli({"ls", "--json", root_.path()}).out)["others"][0]["class"], "abandoned");
}

TEST_F(CliVerifyMany, NamesACheckpointThatHasLostItsName) {
  const std::string left =
      store::temporary_path(root_ / "2", store::make_uuid(store::system_random)).filename();
  fs::rename(root_ / "2", root_ / left);

  const CliResult result = run_cli({"verify", root_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr(left), HasSubstr("a valid checkpoint of '2'")));
  EXPECT_THAT(run_cli({"recover", root_.path()}).out, HasSubstr("restore  " + left + "  displaced"));
  EXPECT_THAT(run_cli({"recover", "--remove", root_.path()}).out, HasSubstr("put back  " + left));
  EXPECT_EQ(run_cli({"verify", root_.path()}).status, 0);
}

TEST_F(CliVerifyMany, NamesForeignFilesAndIsContent) {
  testing::write_text(root_ / "2/notes.txt", "mine");

  const CliResult result = run_cli({"verify", root_ / "2"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("foreign     " + (root_ / "2/notes.txt").string()),
                                HasSubstr("every byte is as it was written")));
  EXPECT_EQ(json::parse(run_cli({"verify", "--json", root_ / "2"}).out)["foreign"][0], "notes.txt");
}

TEST_F(CliVerifyMany, RecoverSaysThatACheckpointIsOne) {
  const CliResult result = run_cli({"recover", root_ / "2"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err,
              HasSubstr((root_ / "2").string() + " is a checkpoint, not a directory of checkpoints"));
}

/// Runs the tool as one to whom the modes of files apply: to root they do not.
int run_without_privileges(const std::vector<std::string>& words) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
    ::prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
    ::_exit(run_cli(words).status);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CliInADirectoryThatMayOnlyBeEntered, VerifiesAndListsWhatLiesThere) {
  const TempDir home;
  fs::create_directory(home / "run");
  testing::save_example(home / "run/1");
  fs::permissions(home.path(), fs::perms::owner_write | fs::perms::owner_exec);

  EXPECT_EQ(run_without_privileges({"verify", home / "run"}), 0);
  EXPECT_EQ(run_without_privileges({"ls", home / "run"}), 0);
  EXPECT_EQ(run_without_privileges({"inspect", home / "run/1/config"}), 0);
  EXPECT_EQ(run_without_privileges({"ls", home.path()}), 1);

  fs::permissions(home.path(), fs::perms::owner_all);
}

}  // namespace
}  // namespace cairn::cli
