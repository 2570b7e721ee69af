// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <string>

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
using ::testing::IsEmpty;
using ::testing::Not;
using testing::run_cli;
using testing::TempDir;
using testing::write_text;

store::Uuid new_uuid() {
  return store::make_uuid(store::system_random);
}

/// What a writer that is gone has written into its `.owner`.
std::string owner_text() {
  return fmt::format("cairn-owner 1\nuuid {}\nhost here\nboot 1\npid 1\nstart 1\n",
                     store::to_string(new_uuid()));
}

/// The name of a temporary directory of a checkpoint.
std::string temporary_name(const std::string& name) {
  return store::temporary_path(fs::path("run") / name, new_uuid()).filename();
}

/// A directory with a checkpoint `7` and what a dead writer of `8` has left.
class CliRecover : public ::testing::Test {
 protected:
  CliRecover() {
    testing::save_example(root_ / "7");
    leftover_ = temporary_name("8");
    fs::create_directory(root_ / leftover_);
    write_text(root_ / leftover_ / ".owner", owner_text());
    write_text(root_ / leftover_ / "data", std::string(5000, 'x'));
  }

  [[nodiscard]] bool exists(const std::string& name) const { return fs::exists(root_ / name); }

  [[nodiscard]] std::string damage() const {
    fs::resize_file(root_ / "7/config/data.json", 0);
    return root_ / "7";
  }

  TempDir root_;
  std::string leftover_;
};

TEST_F(CliRecover, TellsWhatItWouldRemoveAndWhy) {
  const CliResult result = run_cli({"recover", root_.path()});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("remove  " + leftover_ + "  abandoned  "), HasSubstr("left by process")));
}

TEST_F(CliRecover, GivesTheSumOfWhatItWouldRemove) {
  EXPECT_THAT(
      run_cli({"recover", root_.path()}).out,
      HasSubstr("would remove 1 entry, 5.0 KiB; kept: 1 checkpoint, 0 damaged, 0 in progress, 0 foreign\n"));
}

TEST_F(CliRecover, ChangesNothingByItself) {
  const auto before = testing::list_tree(root_.path());

  const CliResult result = run_cli({"recover", root_.path()});

  EXPECT_EQ(testing::list_tree(root_.path()), before);
  EXPECT_THAT(result.out, HasSubstr("nothing was changed; use --remove to apply\n"));
}

TEST_F(CliRecover, RemovesWhenAsked) {
  const CliResult result = run_cli({"recover", "--remove", root_.path()});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("removed  " + leftover_), HasSubstr("removed 1 entry, 5.0 KiB;")));
  EXPECT_FALSE(exists(leftover_));
  EXPECT_EQ(run_cli({"verify", root_ / "7"}).status, 0);
}

TEST_F(CliRecover, HasNothingLeftToDoAfterwards) {
  run_cli({"recover", "--remove", root_.path()});

  EXPECT_THAT(run_cli({"recover", root_.path()}).out,
              AllOf(HasSubstr("would remove 0 entries, 0 B"), Not(HasSubstr("--remove"))));
}

TEST_F(CliRecover, LeavesWhatIsForeignAndSaysSo) {
  const std::string lookalike = temporary_name("9");
  fs::create_directory(root_ / lookalike);
  write_text(root_ / lookalike / "diary", "mine");

  const CliResult result = run_cli({"recover", "--remove", root_.path()});

  EXPECT_THAT(result.out, AllOf(HasSubstr("keep     " + lookalike + "  foreign"), HasSubstr("1 foreign\n")));
  EXPECT_TRUE(exists(lookalike + "/diary"));
}

/// What an export of an earlier version has left when it was killed.
class CliRecoverOldExport : public CliRecover {
 protected:
  void leave(std::chrono::hours ago, const std::string& file) {
    fs::create_directory(root_ / name_);
    write_text(root_ / name_ / file, std::string(7000, 'x'));
    for (const fs::path& path : {root_ / name_ / file, root_ / name_}) {
      fs::last_write_time(path, fs::file_time_type::clock::now() - ago);
    }
  }

  const std::string name_ = ".export-w.safetensors-" + store::to_string(new_uuid());
};

TEST_F(CliRecoverOldExport, IsRemovedAfterADay) {
  leave(std::chrono::hours(25), "w.safetensors");

  const CliResult plan = run_cli({"recover", root_.path()});
  const CliResult result = run_cli({"recover", "--remove", root_.path()});

  EXPECT_THAT(plan.out, AllOf(HasSubstr("remove  " + name_ + "  abandoned"),
                              HasSubstr("left by an export of an earlier version")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("removed  " + name_), HasSubstr("removed 2 entries, ")));
  EXPECT_FALSE(exists(name_));
}

TEST_F(CliRecoverOldExport, StaysWhileItMayBeWritten) {
  leave(std::chrono::hours(1), "w.safetensors");

  const CliResult result = run_cli({"recover", "--remove", root_.path()});

  EXPECT_THAT(result.out, HasSubstr("1 in progress"));
  EXPECT_TRUE(exists(name_));
}

TEST_F(CliRecoverOldExport, IsForeignWithAFileThatNoExportWrites) {
  leave(std::chrono::hours(25), "diary.txt");

  const CliResult result = run_cli({"recover", "--remove", root_.path()});

  EXPECT_THAT(result.out, HasSubstr("1 foreign"));
  EXPECT_TRUE(exists(name_ + "/diary.txt"));
}

TEST_F(CliRecover, FinishesACommitThatLostItsWriter) {
  write_text(root_ / "7/.owner", owner_text());

  EXPECT_THAT(run_cli({"recover", root_.path()}).out, HasSubstr("unmark  7  "));
  EXPECT_THAT(run_cli({"recover", "--remove", root_.path()}).out, HasSubstr("unmarked  7  "));
  EXPECT_FALSE(exists("7/.owner"));
}

TEST_F(CliRecover, NamesADamagedCheckpointAndFails) {
  const std::string path = damage();

  const CliResult result = run_cli({"recover", root_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("1 damaged"));
  EXPECT_THAT(result.err, AllOf(HasSubstr(path + ": damaged"), HasSubstr("config/data.json")));
}

TEST_F(CliRecover, KeepsADamagedCheckpoint) {
  static_cast<void>(damage());

  run_cli({"recover", "--remove", root_.path()});

  EXPECT_TRUE(exists("7/config/data.json"));
}

TEST_F(CliRecover, FailsWhenSomethingCannotBeRemoved) {
  // Deeper than anything of ours: the removal gives up, for root, too.
  fs::path deep = root_ / leftover_;
  for (int i = 0; i < 140; ++i) {
    deep /= "d";
  }
  fs::create_directories(deep);

  const CliResult result = run_cli({"recover", "--remove", root_.path()});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("failed  " + leftover_), HasSubstr("removed 0 entries, 0 B")));
  EXPECT_THAT(result.err, HasSubstr(leftover_ + ": not recovered: "));
}

TEST_F(CliRecover, CountsTheFilesOfOthers) {
  write_text(root_ / "train.py", "mine");
  write_text(root_ / "notes", "mine");

  const CliResult result = run_cli({"recover", root_.path()});

  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\n2 others not Cairn's; --json names them\n"), Not(HasSubstr("train.py"))));
}

TEST_F(CliRecover, EscapesControlCharactersOfNames) {
  fs::create_directory(root_ / ".tmp-x\x1b[31m");

  EXPECT_THAT(run_cli({"recover", root_.path()}).out, HasSubstr(".tmp-x\\x1b[31m"));
}

TEST_F(CliRecover, TellsNothingOfCheckpointsThatAreAsTheyShouldBe) {
  EXPECT_THAT(run_cli({"recover", root_.path()}).out, Not(HasSubstr("committed")));
}

TEST_F(CliRecover, JsonListsEveryEntryWithItsClassAndAction) {
  const json answer = json::parse(run_cli({"recover", "--json", root_.path()}).out);

  EXPECT_EQ(answer["is_dry_run"], true);
  ASSERT_EQ(answer["entries"].size(), 2u);
  EXPECT_EQ(answer["entries"][0]["name"], leftover_);
  EXPECT_EQ(answer["entries"][0]["class"], "abandoned");
  EXPECT_EQ(answer["entries"][0]["action"], "remove");
  EXPECT_GT(answer["entries"][0]["bytes"], 5000);
  EXPECT_LT(answer["entries"][0]["age_seconds"], 3600);
  EXPECT_EQ(answer["entries"][1]["class"], "committed");
}

TEST_F(CliRecover, JsonSaysWhatWasDone) {
  const json answer = json::parse(run_cli({"recover", "--json", "--remove", root_.path()}).out);

  EXPECT_EQ(answer["is_dry_run"], false);
  EXPECT_EQ(answer["entries"][0]["is_done"], true);
  EXPECT_EQ(answer["removed"], 1);
}

TEST_F(CliRecover, NamesADirectoryThatIsNotThere) {
  const CliResult result = run_cli({"recover", root_ / "nothing"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr((root_ / "nothing").string()));
  EXPECT_THAT(result.out, IsEmpty());
}

}  // namespace
}  // namespace cairn::cli
