// SPDX-License-Identifier: Apache-2.0
// How the programs of a run have ended, and what follows for the time between two saves.
#include "training/run_history.hpp"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/training/checkpointer.hpp"

#include "support/forwarding_syscalls.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class RunHistories : public testing::TrainingTest {
 protected:
  static CheckpointerOptions estimating() {
    CheckpointerOptions options;
    options.save = save_when::automatic();
    return options;
  }

  void save(Checkpointer& run, std::uint64_t step) const {
    StepOptions forced;
    forced.force = true;
    run.save(step, {{"state", tree_}}, forced);
    run.wait();
  }

  /// A program that saves steps so far apart, and then fails or not.
  void run_for(std::chrono::hours time, bool fails) {
    try {
      Checkpointer run(root(), estimating(), *context_);
      save(run, next_step_++);
      clock_->advance(time);
      save(run, next_step_++);
      clock_->advance(1h);  // Of which nobody knows.
      if (fails) {
        throw std::runtime_error("the program fails");
      }
    } catch (const std::runtime_error&) {
      return;
    }
  }

  [[nodiscard]] FailureHistory failures() const {
    return Checkpointer(root(), estimating(), *context_).failures();
  }
  [[nodiscard]] std::filesystem::path runs() const { return root() / ".cairn-runs"; }

  std::uint64_t next_step_ = 1;
};

TEST(EstimatedMtbf, IsADayBeforeAnythingIsKnown) {
  EXPECT_EQ(estimated_mtbf({}), 24h);
  FailureHistory history;
  history.lived = 76h;
  EXPECT_EQ(estimated_mtbf(history), 100h);
  history.failures = 4;
  EXPECT_EQ(estimated_mtbf(history), 20h);
}

TEST_F(RunHistories, CountProgramsThatWereNotClosed) {
  EXPECT_EQ(failures().programs, 1u);  // This one.
  run_for(10h, false);
  run_for(2h, true);
  run_for(3h, true);

  const FailureHistory history = failures();

  EXPECT_EQ(history.programs, 4u);
  EXPECT_EQ(history.failures, 2u);
  EXPECT_EQ(history.lived, 11h + 2h + 3h);  // Until it was closed; until the last step of the others.
}

TEST_F(RunHistories, DoNotCountWhatAKillLeavesOfAFile) {
  run_for(2h, true);
  const std::filesystem::path file = std::filesystem::directory_iterator(runs())->path();
  std::filesystem::copy_file(file, file.string() + ".new");

  const FailureHistory history = failures();

  EXPECT_EQ(history.programs, 2u);  // And this one.
  EXPECT_EQ(history.failures, 1u);
  EXPECT_EQ(history.lived, 2h);
}

TEST_F(RunHistories, GiveThePeriod) {
  run_for(10h, true);
  run_for(14h, true);
  Checkpointer run(root(), estimating(), *context_);
  save(run, 100);

  const PeriodReport report = run.period();

  EXPECT_EQ(report.costs.mtbf, 16h);  // (10 + 14 + 24) / 3
  EXPECT_EQ(report.period, best_period(report.costs));
}

TEST_F(RunHistories, LetThePolicySaveMoreOftenWhereProgramsFail) {
  SaveMoment moment;
  moment.since_last_save = 30min;
  moment.costs.blocking = 100s;
  moment.costs.mtbf = 24h;
  EXPECT_FALSE(save_when::automatic()(moment));  // Every 70 minutes.
  moment.costs.mtbf = 2h;
  EXPECT_TRUE(save_when::automatic()(moment));  // Every 18.
  moment.is_saving = true;
  EXPECT_FALSE(save_when::automatic()(moment));
}

TEST_F(RunHistories, AreKeptOnlyWhereAPolicyNeedsThem) {
  {
    CheckpointerOptions options;
    options.save = save_when::automatic(24h);
    Checkpointer run(root(), options, *context_);
    save(run, 1);
    run.close();
    EXPECT_EQ(run.failures().programs, 1u);
  }
  EXPECT_FALSE(std::filesystem::exists(runs()));
  EXPECT_TRUE(save_when::any_of({save_when::first(), save_when::automatic()}).needs_history());
  EXPECT_TRUE(save_when::all_of({save_when::first(), save_when::automatic()}).needs_history());
  EXPECT_FALSE(save_when::any_of({save_when::first(), save_when::automatic(1h)}).needs_history());
}

TEST_F(RunHistories, AreNotOfProgramsThatSaveNothing) {
  std::filesystem::create_directories(root());
  Checkpointer(root(), estimating(), *context_).close();

  EXPECT_FALSE(std::filesystem::exists(runs()));
}

TEST_F(RunHistories, PassOverWhatIsNoRecord) {
  run_for(5h, true);
  const auto put = [&](const char* name, const std::string& text) {
    testing::write_text(runs() / name, text);
  };
  put("a", "");
  put("b", "[1]");
  put("c", R"({"begun": 5, "seen": 4, "closed": false})");
  put("d", R"({"begun": 5, "seen": 99999999999999, "closed": false})");
  put("e", R"({"begun": -5, "seen": 4})");
  put("f", R"({"begun": "x"})");
  put("g", std::string(100'000, ' '));
  put("h", R"({"begun": 3600, "seen": 7200, "closed": 1, "more": [1]})");  // Not said to be closed.
  std::filesystem::create_directory(runs() / "i");
  std::filesystem::create_symlink("/etc/passwd", runs() / "j");

  const FailureHistory history = failures();

  EXPECT_EQ(history.failures, 2u);
  EXPECT_EQ(history.lived, 6h);
}

TEST_F(RunHistories, ForgetTheOldestOfVeryMany) {
  run_for(1h, true);
  for (std::size_t i = 0; i < training::kMostRuns + 10; ++i) {
    testing::write_text(runs() / fmt::format("{:010}-x", i), R"({"begun": 0, "seen": 3600, "closed": true})");
  }

  EXPECT_EQ(failures().programs, training::kMostRuns + 1);

  EXPECT_FALSE(std::filesystem::exists(runs() / "0000000010-x"));
  EXPECT_TRUE(std::filesystem::exists(runs() / "0000000011-x"));
}

/// The files of a root, but those of its history that tests name cannot be opened, listed or removed.
class RefusedHistory final : public testing::ForwardingSyscalls {
 public:
  explicit RefusedHistory(testing::CallKind refused, std::string name)
      : refused_(refused), name_(std::move(name)) {}

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    const bool is_refused = call.kind == refused_ && call.name != nullptr &&
                            std::string_view(call.name).find(name_) != std::string_view::npos;
    return is_refused ? -EACCES : call.make();
  }

  const testing::CallKind refused_;
  const std::string name_;
};

TEST_F(RunHistories, ThatCannotBeReadAreNoReasonToFail) {
  run_for(10h, true);
  ContextOptions over = small();
  over.syscalls = std::make_shared<RefusedHistory>(testing::CallKind::open, ".cairn-runs");
  over.clock = clock_;
  const Context context(over);

  Checkpointer run(root(), estimating(), context);

  EXPECT_EQ(run.failures().programs, 1u);  // This one.
  EXPECT_TRUE(run.resume());
}

TEST_F(RunHistories, OfVeryManyThatMayNotBeRemovedAreNoReasonToFail) {
  run_for(1h, true);
  for (std::size_t i = 0; i < training::kMostRuns; ++i) {
    testing::write_text(runs() / fmt::format("{:010}-x", i), R"({"begun": 0, "seen": 3600, "closed": true})");
  }
  ContextOptions over = small();
  over.syscalls = std::make_shared<RefusedHistory>(testing::CallKind::unlink, "-x");
  over.clock = clock_;
  const Context context(over);

  EXPECT_EQ(Checkpointer(root(), estimating(), context).failures().programs, training::kMostRuns + 1);

  EXPECT_TRUE(std::filesystem::exists(runs() / "0000000000-x"));
}

TEST_F(RunHistories, AreNoReasonToFail) {
  std::filesystem::create_directories(root());
  testing::write_text(runs(), "somebody's file");
  Checkpointer run(root(), estimating(), *context_);
  save(run, 1);
  run.close();

  EXPECT_THAT(run.steps(), ElementsAre(1));
  EXPECT_EQ(testing::read_text(runs()), "somebody's file");
}

}  // namespace
}  // namespace cairn
