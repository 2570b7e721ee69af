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
using ::testing::HasSubstr;
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
    EXPECT_EQ(first_line({"diff", typed, typed}), "A  " + typed);
    EXPECT_THAT(run_cli({"verify", typed}).out, StartsWith(typed + ": "));
    EXPECT_EQ(json::parse(run_cli({"ls", "--json", typed}).out)["path"], typed);
    EXPECT_EQ(json::parse(run_cli({"inspect", "--json", typed}).out)["path"], typed);
    EXPECT_EQ(json::parse(run_cli({"verify", "--json", typed}).out)["path"], typed);
  }
  EXPECT_EQ(first_line({"ls", "run/"}), "run/");
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
