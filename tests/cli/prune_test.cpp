// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/training/checkpointer.hpp"
#include "cairn/training/partial_save.hpp"

#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::CliResult;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_cli;
using ::testing::StartsWith;
using testing::TempDir;

/// A root as a training leaves it: steps 100 to 500, of which 300 is the best and 100 is pinned, and a checkpoint
/// that is no step.
class CliPrune : public ::testing::Test {
 protected:
  CliPrune() : root_(directory_ / "run") {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    const Context context(options);
    Checkpointer run(root_, {}, context);
    const Tree tree = {{"x", 1}};
    for (const std::uint64_t step : {100u, 200u, 300u, 400u, 500u}) {
      run.save(step, {{"state", tree}}, Metrics{{"loss", step == 300 ? 0.25 : 1.0}});
    }
    run.close();
    run.pin(100);
    save_checkpointables(root_ / "final", {{"state", tree}}, context);
  }

  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TempDir directory_;
  fs::path root_;
};

TEST_F(CliPrune, SaysWhatItWouldRemoveAndWhyTheOthersStay) {
  const CliResult result = run_cli({"prune", root_, "--latest", "1", "--best", "loss:1:lower"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(ContainsRegex("keep +100 .* loss=1 +pinned"), ContainsRegex("remove +200 .* loss=1 +-"),
                    ContainsRegex("keep +300 .* loss=0.25 +best\\(loss, 1, lower\\)"),
                    ContainsRegex("keep +500 .* latest\\(1\\), newest"), HasSubstr("would remove 2 steps"),
                    HasSubstr("nothing was changed; use --remove to apply\n"),
                    HasSubstr("\n1 checkpoint not named like a step: 'final'\n")));
  EXPECT_EQ(left().size(), 7u);
}

TEST_F(CliPrune, RemovesWhenItIsAskedTo) {
  const CliResult result = run_cli({"prune", root_, "--latest", "1", "--remove"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("removed 3 steps"), Not(HasSubstr("nothing was changed"))));
  EXPECT_THAT(left(), ::testing::UnorderedElementsAre(".cairn-pins", "100", "500", "final"));
}

TEST_F(CliPrune, AnswersInJson) {
  const json answer =
      json::parse(run_cli({"prune", "--json", root_, "--every-steps", "200", "--steps", "300,500"}).out);

  EXPECT_EQ(answer["is_dry_run"], true);
  EXPECT_EQ(answer["kept"],
            json::parse(R"json([{"step": 100, "why": "pinned"}, {"step": 200, "why": "every_steps(200)"
},
                                           {"step": 300, "why": "at_steps(2 steps)"},
                                           {"step": 400, "why": "every_steps(200)"},
                                           {"step": 500, "why": "at_steps(2 steps), newest"}])json"));
  EXPECT_TRUE(answer["removed"].empty());
}

TEST_F(CliPrune, NamesRemovedStepsInJson) {
  const json answer =
      json::parse(run_cli({"prune", "--json", "--remove", root_, "--younger-than", "0.000001"}).out);

  ASSERT_EQ(answer["removed"].size(), 3u);
  EXPECT_EQ(answer["removed"][0]["step"], 200);
  EXPECT_EQ(answer["removed"][1]["metrics"]["loss"], 0.25);
  EXPECT_EQ(answer["is_dry_run"], false);
}

TEST_F(CliPrune, WithoutAnythingToKeepIsWrongUsage) {
  EXPECT_EQ(run_cli({"prune", root_}).status, 2);
  EXPECT_EQ(run_cli({"prune", root_, "--remove"}).status, 2);
  EXPECT_THAT(run_cli({"prune", root_}).err,
              HasSubstr("nothing says which steps stay: give one or more of --latest, --every-steps"));
  EXPECT_EQ(left().size(), 7u);
}

TEST_F(CliPrune, TellsOfAStepThatHasLostItsCommit) {
  fs::remove(root_ / "200/COMMIT");

  const CliResult result = run_cli({"prune", root_, "--latest", "1"});

  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("\n1 step cannot be loaded and will stay: " + (root_ / "200").string() +
                                    ": COMMIT is missing\n"));
}

TEST_F(CliPrune, NamesADirectoryThatIsNotThere) {
  const CliResult result = run_cli({"prune", directory_ / "rnu", "--latest", "2"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr((directory_ / "rnu").string() + ": not found"));
}

TEST_F(CliPrune, NamesWhatItDoesNotUnderstand) {
  for (const char* best :
       {"loss", "loss:3", "loss:x:lower", "loss:3:upper", ":3:lower", "loss::lower", "::"}) {
    const CliResult result = run_cli({"prune", root_, "--best", best});
    EXPECT_EQ(result.status, 2) << best;
    EXPECT_THAT(result.err, StartsWith(fmt::format("cairn: --best: '{}' is not ", best)));
  }
  EXPECT_THAT(run_cli({"prune", root_ / "500", "--latest", "1"}).err, HasSubstr("is a checkpoint"));
}

TEST_F(CliPrune, NamesTheOptionsThatReadStepsOfOtherNames) {
  const fs::path other = directory_ / "other";
  fs::create_directory(other);
  for (const char* name : {"step-0010", "step-0020"}) {
    save(other / name, Tree{{"x", 1}});
  }

  const CliResult result = run_cli({"prune", other, "--latest", "1"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("would remove 0 steps"),
                                HasSubstr("2 checkpoints not named like a step: 'step-0010' and others; "
                                          "use --prefix 'step-' --width 4 to read such names\n")));
  EXPECT_THAT(run_cli({"prune", other, "--latest", "1", "--prefix", "step-", "--width", "4"}).out,
              AllOf(HasSubstr("would remove 1 step,"), Not(HasSubstr("not named"))));
}

TEST_F(CliPrune, KeepsDamagedStepsAndSaysSo) {
  testing::write_text(root_ / "200/checkpoint.json", "{");

  EXPECT_THAT(run_cli({"prune", root_, "--latest", "1"}).out, ContainsRegex("keep +200 .*damaged: "));
}

TEST_F(CliPrune, ShowsMetricsThatAreNoFiniteNumbersAndTakesNoneForTheBest) {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  const Context context(options);
  {
    Checkpointer run(root_, {}, context);
    const Metrics metrics = {{"loss", std::numeric_limits<double>::quiet_NaN()},
                             {"norm", -std::numeric_limits<double>::infinity()}};
    run.save(600, {{"state", Tree({{"x", 1}})}}, metrics);
    run.close();
  }

  EXPECT_THAT(run_cli({"ls", root_}).out, ContainsRegex("600 .*Z .* - +loss=nan norm=-inf"));
  const json listed = json::parse(run_cli({"ls", "--json", root_}).out)["checkpoints"];
  EXPECT_EQ(listed[5]["not_finite"], json::parse(R"({"loss": "nan", "norm": "-inf"})"));
  EXPECT_THAT(run_cli({"prune", root_, "--best", "norm:1:lower"}).out,
              ContainsRegex("keep +600 .* norm=-inf +newest\n"));
}

TEST_F(CliPrune, IsPreparedByLsWhichShowsPinsOfStepsThatWerePutTogetherOfParts) {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  const Context context(options);
  const Tree tree = {{"x", 1}};
  for (const char* name : {"600", "other-300"}) {
    PartialSave partial(root_ / name, {}, context);
    partial.add({{"state", tree}});
    partial.finalize();
  }
  const StepDirectory steps(root_, {}, context);
  steps.pin(600);
  steps.pin(300);

  EXPECT_THAT(run_cli({"ls", root_}).out,
              AllOf(ContainsRegex("600 .*Z .* pinned +-"), ContainsRegex("\n300 .* pinned +loss"),
                    ContainsRegex("other-300 .* - +-")));
}

TEST_F(CliPrune, IsPreparedByLsWhichShowsStepsMetricsAndPins) {
  const std::string out = run_cli({"ls", root_}).out;
  EXPECT_THAT(out, AllOf(ContainsRegex("100 .*Z .* pinned +loss=1"), ContainsRegex("300 .* - +loss=0.25"),
                         ContainsRegex("final .* - +-")));

  const json listed = json::parse(run_cli({"ls", "--json", root_}).out)["checkpoints"];
  EXPECT_EQ(listed[0]["step"], 100);
  EXPECT_EQ(listed[0]["is_pinned"], true);
  EXPECT_EQ(listed[2]["metrics"], json::parse(R"({"loss": 0.25})"));
  EXPECT_FALSE(listed[5].contains("step"));
}

}  // namespace
}  // namespace cairn::cli
