// SPDX-License-Identifier: Apache-2.0
// Wrong usage: the status is 2, and the message names the word that is wrong.
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using testing::CliResult;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::run_cli;
using ::testing::StartsWith;
using testing::TempDir;

void expect_refused(const std::vector<std::string>& words, const std::string& complaint) {
  const CliResult result = run_cli(words);

  EXPECT_EQ(result.status, 2) << complaint;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, StartsWith("cairn: " + complaint));
}

TEST(CliUsage, NamesAnUnknownCommandAndTheNearestOne) {
  expect_refused({"lss", "run"}, "unknown command 'lss'; did you mean 'ls'?\n");
  expect_refused({"inspct", "--json", "run"}, "unknown command 'inspct'; did you mean 'inspect'?\n");
  expect_refused({"x"}, "unknown command 'x'\n");
  expect_refused({"frobnicate", "run"}, "unknown command 'frobnicate'\n");
  expect_refused({"\x1b[31m"}, "unknown command '\\x1b[31m'\n");
}

TEST(CliUsage, NamesWordsThatItDoesNotExpect) {
  expect_refused({"--fast", "run"}, "unknown option '--fast'\n");
  expect_refused({"--fast", "ls", "run"}, "unknown option '--fast'\n");
  expect_refused({"ls", "--fast", "run"}, "unknown option '--fast'\n");
  expect_refused({"ls", "run", "more"}, "unexpected argument 'more'\n");
}

TEST(CliUsage, SaysThatACommandIsRequired) {
  expect_refused({}, "a command is required\nRun 'cairn --help' for more.\n");
}

TEST(CliUsage, PointsToTheHelpOfTheCommand) {
  EXPECT_THAT(run_cli({"verify", "--threads", "x", "run"}).err,
              HasSubstr("\nRun 'cairn verify --help' for more.\n"));
  EXPECT_THAT(run_cli({"reshard", "a", "b"}).err, HasSubstr("\nRun 'cairn reshard --help' for more.\n"));
}

TEST(CliUsage, RefusesNumbersOutOfRangeAndNamesOptionAndValue) {
  expect_refused({"verify", "--threads", "100000000", "x"},
                 "--threads: '100000000' is not a whole number from 0 to 1024\n");
  expect_refused({"verify", "--threads", "99999", "x"}, "--threads: '99999' is not");
  expect_refused({"verify", "--jobs", "-1", "x"}, "--jobs: '-1' is not a whole number from 0 to 1024\n");
  expect_refused({"verify", "--jobs", "1e3", "x"}, "--jobs: '1e3' is not");
  expect_refused({"show", "--limit", "-1", "x", "y"}, "--limit: '-1' is not");
  expect_refused({"reshard", "a", "b", "--parts", "2", "--axis", "-1"},
                 "--axis: '-1' is not a whole number from 0 to 63\n");
  expect_refused({"reshard", "a", "b", "--parts", "-1"}, "--parts: '-1' is not");
}

TEST(CliUsage, RefusesPoliciesThatCannotBeMeant) {
  expect_refused({"prune", "x", "--latest", "-1"}, "--latest: '-1' is not a whole number\n");
  expect_refused({"prune", "x", "--every-steps", "0"},
                 "--every-steps: '0' is not a whole number of at least 1\n");
  expect_refused({"prune", "x", "--steps-apart", "0"}, "--steps-apart: '0' is not");
  expect_refused({"prune", "x", "--nearest-to-every", "0"}, "--nearest-to-every: '0' is not");
  expect_refused({"prune", "x", "--seconds-apart", "-5"},
                 "--seconds-apart: '-5' is not a number of at least 0.001\n");
  expect_refused({"prune", "x", "--younger-than", "nan"},
                 "--younger-than: 'nan' is not a number of at least 0\n");
  expect_refused({"prune", "x", "--steps", "1,-2"}, "--steps: '-2' is not a whole number\n");
  expect_refused({"prune", "x", "--latest", "1", "--width", "21"},
                 "--width: '21' is not a whole number from 0 to 20\n");
  expect_refused({"prune", "x", "--latest", "1", "--prefix", "a/b"}, "--prefix: 'a/b' cannot be a prefix");
  expect_refused({"prune", "x", "--best", "loss:0:lower"},
                 "--best: 'loss:0:lower' is not METRIC:N:lower or METRIC:N:higher with N of at least 1\n");
}

TEST(CliUsage, RefusesTolerancesThatAreNotNumbers) {
  for (const std::string tolerance : {"nan", "-1", "inf", "x", ""}) {
    expect_refused({"diff", "a", "b", "--tolerance", tolerance},
                   "--tolerance: '" + tolerance + "' is not a number of at least 0\n");
  }
}

TEST(CliUsage, RefusesSizesThatAreNone) {
  for (const std::string size : {"-1", "0", "MiB", "5 parsecs", "1.5GiB", "99999999999GiB", "16EiB", ""}) {
    expect_refused({"reshard", "a", "b", "--max-file", size},
                   "--max-file: '" + size + "' is not a size such as 500MiB\n");
  }
  expect_refused({"export", "a", "b", "--max-file", "0"}, "--max-file: '0' is not");
  expect_refused({"reshard", "a", "b", "--tiles", "big"}, "--tiles: 'big' is not");
}

TEST(CliUsage, NamesTheValuesThatAnOptionTakes) {
  expect_refused({"export", "a", "b", "--format", "zip"},
                 "--format: 'zip' is not safetensors or hf or torch or dcp or torch_dist\n");
  expect_refused({"export", "a", "b", "--format", ""},
                 "--format: '' is not safetensors or hf or torch or dcp or torch_dist\n");
}

TEST(CliUsage, SaysThatAnOptionNeedsAValueAndOnlyOne) {
  expect_refused({"export", "a", "b", "--format"}, "--format needs a value\n");
  expect_refused({"prune", "x", "--best"}, "--best needs a value\n");
  expect_refused({"reshard", "a", "b", "--parts", "2", "--parts", "3"}, "--parts is given more than once\n");
}

TEST(CliUsage, ReadsSizesWithUnits) {
  const TempDir directory;
  save(directory / "source", Tree{{"w", Array::zeros({256, 1024}, DType::int8)}});
  const std::vector<std::pair<std::string, std::size_t>> files_of_sizes = {
      {"65536", 4}, {"65536b", 4}, {"64k", 4}, {"64KiB", 4}, {"128 KB", 2}, {"1Mi", 1}, {"5g", 1}};

  for (const auto& [size, files] : files_of_sizes) {
    const CliResult result =
        run_cli({"reshard", directory / "source", directory / size, "--max-file", size, "--json"});
    ASSERT_EQ(result.status, 0) << size << result.err;
    EXPECT_EQ(nlohmann::json::parse(result.out)["checkpointables"][0]["files"].size(), files) << size;
  }
}

TEST(CliUsage, RunsAProgramBehindDashesOnly) {
  expect_refused({"agent", "--memory", "/dev/shm/x", "--root", "r", "statsu"},
                 "unknown command 'agent statsu'; a program stands behind --; did you mean 'status'?\n");
  expect_refused({"agent", "--memory", "/dev/shm/x", "--root", "r", "true"},
                 "unknown command 'agent true'; a program stands behind --\n");
}

TEST(CliUsage, WrapsHelpAtTheWidth) {
  for (const char* command : {"ls", "export", "agent", "prune"}) {
    const std::string words =
        std::string("COLUMNS=60 ") + testing::shell_quoted(CAIRN_CLI) + " " + command + " --help";
    const TempDir directory;
    ASSERT_EQ(std::system((words + " > " + testing::shell_quoted(directory / "help")).c_str()), 0);
    std::istringstream lines(testing::read_text(directory / "help"));
    for (std::string line; std::getline(lines, line);) {
      const bool is_usage = line.starts_with("Usage:") || line.starts_with("  --");
      EXPECT_TRUE(is_usage || line.size() <= 60) << command << ": " << line;
    }
  }
}

TEST(CliUsage, PrintsWhatShellsComplete) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const CliResult result = run_cli({"completion", shell});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("inspect"), HasSubstr("decimal"))) << shell;
  }
  EXPECT_THAT(run_cli({"completion", "csh"}).err, HasSubstr("'csh' is not bash or zsh or fish"));
  EXPECT_EQ(run_cli({"completion", "bash"}, "| bash -n").status, 0);
}

TEST(CliUsage, PrintsAManualPage) {
  const CliResult result = run_cli({"manual"});

  EXPECT_THAT(result.out, AllOf(StartsWith(".TH CAIRN 1"), HasSubstr(".SS cairn agent status [OPTIONS]"),
                                HasSubstr("\\fB\\-\\-nearest\\-to\\-every\\fR N")));
  EXPECT_THAT(run_cli({"--help"}).out, Not(HasSubstr("manual")));
}

TEST(CliUsage, ReadsDecimalNumbersThatBeginWithZeros) {
  const TempDir directory;
  save(directory / "source", Tree{{"w", Array::zeros({20}, DType::int8)}});

  const CliResult result = run_cli({"reshard", directory / "source", directory / "cut", "--parts", "010"});

  EXPECT_THAT(result.out, AllOf(HasSubstr("10 equal parts"), Not(HasSubstr(" 8 equal"))));
}

}  // namespace
}  // namespace cairn::cli
