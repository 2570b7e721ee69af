// SPDX-License-Identifier: Apache-2.0
// Paths are shown as they were typed.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_cli;
using ::testing::StartsWith;
using testing::TempDir;

/// A checkpoint run/7 below the working directory.
class CliPaths : public ::testing::Test {
 protected:
  CliPaths() {
    fs::current_path(directory_.path());
    fs::create_directory("run");
    testing::save_example("run/7");
    for (const auto& entry : fs::directory_iterator("run/7/model")) {
      data_file_ = entry.path().extension() == ".safetensors" ? entry.path() : data_file_;
    }
  }

  ~CliPaths() override { fs::current_path(before_); }

  static std::string first_line(const std::vector<std::string>& words) {
    const std::string out = run_cli(words).out;
    return out.substr(0, out.find('\n'));
  }

  const fs::path before_ = fs::current_path();
  const TempDir directory_;
  fs::path data_file_;
};

TEST_F(CliPaths, AreShownAsTheyWereTyped) {
  for (const std::string typed : {"run/7", "./run/../run//7", "run/7/"}) {
    EXPECT_EQ(first_line({"ls", typed}), typed);
    EXPECT_EQ(first_line({"inspect", typed}), typed);
    EXPECT_EQ(first_line({"diff", "--read", typed, typed}), "A  " + typed);
    EXPECT_THAT(run_cli({"verify", typed}).out, StartsWith(typed + ": "));
    EXPECT_EQ(json::parse(run_cli({"ls", "--json", typed}).out)["path"], typed);
    EXPECT_EQ(json::parse(run_cli({"inspect", "--json", typed}).out)["path"], typed);
    EXPECT_EQ(json::parse(run_cli({"verify", "--json", typed}).out)["path"], typed);
  }
  EXPECT_EQ(first_line({"ls", "run/"}), "run/");
}

TEST_F(CliPaths, AreShownAsTheyWereTypedInComplaints) {
  fs::create_directory("run/2");
  testing::save_example("run/8");
  fs::remove("run/8/COMMIT");

  EXPECT_EQ(run_cli({"ls", "nowhere"}).err, "cairn: nowhere: not found\n");
  EXPECT_EQ(run_cli({"show", "run/2", "w"}).err, run_cli({"inspect", "run/2"}).err);
  EXPECT_THAT(run_cli({"show", "run/2", "w"}).err, StartsWith("cairn: run/2 "));
  EXPECT_THAT(run_cli({"show", "./run", "w"}).err, StartsWith("cairn: ./run "));
  EXPECT_THAT(run_cli({"diff", "run/7", "../none"}).err, HasSubstr("cairn: ../none: "));
  EXPECT_THAT(run_cli({"verify", "none", "run/7"}).out, StartsWith("none: not found\n"));
  EXPECT_THAT(run_cli({"verify", "run/8"}).err, StartsWith("cairn: run/8 has no COMMIT"));

  fs::resize_file("run/7/model/index.fb", 20);
  const testing::CliResult damaged = run_cli({"inspect", "run/7"});
  EXPECT_THAT(damaged.out + damaged.err,
              AllOf(HasSubstr("run/7/model/index.fb: "), Not(HasSubstr(directory_.path().string()))));
}

TEST_F(CliPaths, AreShownOnceByVerify) {
  testing::save_example("run/8");
  fs::remove("run/8/COMMIT");

  EXPECT_THAT(run_cli({"verify", "run"}).out, HasSubstr("\nrun/8: COMMIT is missing\n"));
}

TEST_F(CliPaths, OfWhatLiesAboveAreAsTypedWhereTheyCanBe) {
  EXPECT_THAT(run_cli({"verify", "run/7/model"}).out, StartsWith("run/7: "));
  EXPECT_THAT(run_cli({"inspect", data_file_}).out, HasSubstr("a data file of the checkpoint run/7:"));

  fs::current_path("run/7");
  const std::string absolute = (directory_.path() / "run/7").string();
  EXPECT_THAT(run_cli({"verify", "model"}).out, StartsWith(fs::canonical(absolute).string() + ": "));
  fs::current_path("model");
  EXPECT_THAT(run_cli({"inspect", "./" + data_file_.filename().string()}).out,
              HasSubstr("a data file of the checkpoint " + fs::canonical(absolute).string() + ":"));
  EXPECT_THAT(run_cli({"inspect", "../model/" + data_file_.filename().string()}).out,
              HasSubstr("a data file of the checkpoint ..:"));
  EXPECT_EQ(first_line({"inspect", "."}), ".");
}

}  // namespace
}  // namespace cairn::cli
