// SPDX-License-Identifier: Apache-2.0
// cairn copy: the same checkpoint elsewhere.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using testing::run_cli;

class CopyCommand : public ::testing::Test {
 protected:
  CopyCommand() { testing::save_example(source_); }

  const testing::TempDir folder_;
  const fs::path source_ = folder_ / "source";
  const fs::path target_ = folder_ / "target";
};

TEST_F(CopyCommand, MakesTheSameCheckpointAlsoOfWhatNoHandlerIsKnownFor) {
  const testing::CliResult result = run_cli({"copy", source_, target_});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("every byte is as it was written"));
  EXPECT_EQ(run_cli({"diff", source_, target_}).status, 0);
  EXPECT_EQ(run_cli({"verify", target_}).status, 0);

  const testing::CliResult again = run_cli({"copy", source_, target_});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("the same checkpoint is there"));
}

TEST_F(CopyCommand, AnswersInJson) {
  const testing::CliResult result = run_cli({"copy", "--json", source_, target_});

  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("path"), target_.string());
  EXPECT_GT(json.at("files"), 3);
}

TEST_F(CopyCommand, ReplacesAnotherCheckpointOnlyWhenItIsTold) {
  testing::save_example(target_);

  const testing::CliResult refused = run_cli({"copy", source_, target_});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr(target_.string()));

  const testing::CliResult replaced = run_cli({"copy", "--overwrite", source_, target_});
  EXPECT_EQ(replaced.status, 0) << replaced.err;
  EXPECT_EQ(testing::read_text(source_ / "checkpoint.json"), testing::read_text(target_ / "checkpoint.json"));
}

}  // namespace
}  // namespace cairn
