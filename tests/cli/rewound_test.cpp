// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/training/checkpointer.hpp"

#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::CliResult;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_cli;
using testing::TempDir;

/// A root as a training leaves it that has gone back from step 300 to step 100.
class CliRewound : public ::testing::Test {
 protected:
  CliRewound() : root_(directory_ / "run") {
    Checkpointer run(root_, {}, context_);
    for (const std::uint64_t step : {100u, 200u, 300u}) {
      save(run, step);
    }
    run.rewind(100);
    run.close();
  }

  static ContextOptions small() {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    return options;
  }
  static void save(Checkpointer& run, std::uint64_t step) {
    const Tree tree = {{"x", 1}};
    run.save(step, {{"state", tree}}).wait();
  }
  [[nodiscard]] std::vector<std::uint64_t> steps() const {
    return *StepDirectory(root_, {}, context_).steps();
  }
  [[nodiscard]] json listed() const { return json::parse(run_cli({"ls", "--json", root_}).out)["rewound"]; }
  [[nodiscard]] std::string line() const { return listed()["lines"][0]["name"]; }

  TempDir directory_;
  fs::path root_;
  const Context context_{small()};
};

TEST_F(CliRewound, IsListedByLsAndRecover) {
  for (const char* command : {"ls", "recover"}) {
    const CliResult result = run_cli({command, root_});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out,
                ContainsRegex("\nREWOUND LINE .*\n[0-9]+-[0-9a-f-]+ +20.*Z +200 to 300 +2 +[0-9]+ B"));
    const json rewound = json::parse(run_cli({command, "--json", root_}).out)["rewound"];
    ASSERT_EQ(rewound["lines"].size(), 1u);
    EXPECT_EQ(rewound["lines"][0]["checkpoints"][1]["name"], "300");
  }
  EXPECT_THAT(run_cli({"ls", root_}).out, HasSubstr("total       1 checkpoint"));
}

TEST_F(CliRewound, IsNotToldOfWhereThereIsNothing) {
  fs::remove_all(root_ / ".cairn-rewound");

  EXPECT_THAT(run_cli({"ls", root_}).out, Not(HasSubstr("REWOUND")));
  EXPECT_TRUE(listed()["lines"].empty());
}

TEST_F(CliRewound, NamesWhatNoRewindHasMadeAndLeavesIt) {
  fs::create_directory_symlink(root_ / "100", root_ / ".cairn-rewound/other");

  EXPECT_THAT(run_cli({"ls", root_}).out, HasSubstr(".cairn-rewound/other was not made by a rewind\n"));
  EXPECT_EQ(run_cli({"prune", "--rewound", "--remove", root_}).status, 0);
  EXPECT_TRUE(fs::is_symlink(root_ / ".cairn-rewound/other"));
  EXPECT_THAT(steps(), ElementsAre(100));
}

TEST_F(CliRewound, IsRemovedByPruneWhenItIsAskedTo) {
  const CliResult plan = run_cli({"prune", "--rewound", root_});
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("200 to 300"), HasSubstr("would remove 1 rewound line, "),
                              HasSubstr("nothing was changed; use --remove to apply\n")));
  EXPECT_EQ(listed()["lines"].size(), 1u);

  const json answer = json::parse(run_cli({"prune", "--rewound", "--remove", "--json", root_}).out);
  EXPECT_EQ(answer["removed"], 1);
  EXPECT_TRUE(listed()["lines"].empty());
  EXPECT_THAT(steps(), ElementsAre(100));
}

TEST_F(CliRewound, IsKeptByPruneWhereItIsNotCairnsAndThatIsAFailure) {
  testing::write_text(root_ / ".cairn-rewound" / line() / "notes", "mine");

  const CliResult result = run_cli({"prune", "--rewound", "--remove", root_});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("removed 0 rewound lines"));
  EXPECT_THAT(result.err, HasSubstr("notes stays: "));
}

TEST_F(CliRewound, IsPrunedWithoutOptionsThatSayWhatStays) {
  EXPECT_EQ(run_cli({"prune", "--rewound", "--latest", "1", root_}).status, 2);
  EXPECT_EQ(run_cli({"prune", root_}).status, 2);
}

TEST_F(CliRewound, IsBroughtBackByUnrewind) {
  const CliResult result = run_cli({"unrewind", root_});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "brought back  " + (root_ / "200").string() + "\nbrought back  " +
                            (root_ / "300").string() + "\n");
  EXPECT_THAT(steps(), ElementsAre(100, 200, 300));
  EXPECT_THAT(run_cli({"unrewind", root_}).err, HasSubstr("nothing of " + root_.string() + " was rewound"));
}

TEST_F(CliRewound, GivesUpStepsInMemoryThatAreNotBelowItWhenItIsBroughtBack) {
  fs::create_directory(root_ / ".cairn-flash");
  testing::write_text(root_ / ".cairn-flash/line", "1\n1 101\n");

  const CliResult result = run_cli({"unrewind", root_});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\ndiscarded     all earlier steps in memory from 200 on\n"));
  EXPECT_EQ(testing::read_text(root_ / ".cairn-flash/line"), "2\n1 101\n2 200\n");
}

TEST_F(CliRewound, SaysInJsonWhichStepsInMemoryAreGivenUp) {
  fs::create_directory(root_ / ".cairn-flash");

  EXPECT_EQ(json::parse(run_cli({"unrewind", "--json", root_}).out)["images_given_up_from"], 200);
}

TEST_F(CliRewound, IsBroughtBackLastLineFirstOrByName) {
  Checkpointer run(root_, {}, context_);
  save(run, 150);
  run.rewind(100);
  ASSERT_EQ(listed()["lines"].size(), 2u);

  EXPECT_EQ(json::parse(run_cli({"unrewind", "--json", root_}).out)["checkpoints"],
            json::parse(R"(["150"])"));
  EXPECT_EQ(run_cli({"unrewind", root_, line()}).status, 0);
  EXPECT_THAT(steps(), ElementsAre(100, 150, 200, 300));
}

TEST_F(CliRewound, DoesNotComeBackBesideTheSameStepInAnotherWidth) {
  cairn::save(root_ / "0200", Tree{{"x", 1}}, SaveOptions(), context_);

  const CliResult result = run_cli({"unrewind", root_});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("0200 is there, which is not below '200', so nothing is moved"));
}

TEST_F(CliRewound, DoesNotComeBackBelowLaterSteps) {
  Checkpointer run(root_, {}, context_);
  save(run, 400);

  const CliResult result = run_cli({"unrewind", root_});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("400 is there, which is not below '200', so nothing is moved"));
  EXPECT_THAT(steps(), ElementsAre(100, 400));
}

}  // namespace
}  // namespace cairn::cli
