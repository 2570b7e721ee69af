// SPDX-License-Identifier: Apache-2.0
// Trainings that save, pin and remove steps are killed or told to end, again and again, alone and beside others; each
// time the newest step that one was told of must be there, and what policies and pins keep. In every other pair of
// cycles calls of the system are slow. Prints a line with the counts for each test.
//
// CAIRN_TRAININGS_CYCLES: how often (40 when unset, and a fifth of it beside others); CAIRN_KILL_SEED: where the
// random moments begin; CAIRN_KILL_SLOWEST: how many milliseconds a slow call takes at most (20 when unset).
#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/training/checkpointer.hpp"

#include "kill/training.hpp"
#include "kill/training_diary.hpp"
#include "support/number_from.hpp"
#include "support/process.hpp"
#include "support/sampling.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

using cairn::testing::Process;
using std::chrono::microseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kCycles = 40;  // Of a commit; tests/run --long trainings has 5,000.
constexpr int kLongestMicroseconds = 60'000;
constexpr std::uint64_t kSlowestMilliseconds = 20;

class TrainingsTest : public ::testing::Test {
 protected:
  TrainingsTest() { random_.seed(seed_); }

  [[nodiscard]] std::vector<std::string> arguments(std::uint64_t cycle) {
    const bool is_slow = cycle / 2 % 2 == 1;
    return {root_.path().string(), cycle % 2 == 1 ? "threads" : "automatic", std::to_string(random_() >> 1),
            is_slow ? slowest_ : "quick"};
  }

  [[nodiscard]] microseconds moment(std::uint64_t cycle) {
    const int slow = cycle / 2 % 2 == 1 ? static_cast<int>(std::stoul(slowest_)) * 1000 : 0;
    return microseconds(std::uniform_int_distribution<int>(0, kLongestMicroseconds + slow)(random_));
  }

  /// One training, which is killed, told to end, or told to end and then killed.
  void run_alone(std::uint64_t cycle) {
    std::vector<std::string> all = arguments(cycle);
    all.insert(all.end(), {"0", "1"});
    Process process(CAIRN_TRAINEE, all);
    process.await_first_word();
    std::this_thread::sleep_for(moment(cycle));
    const std::uint64_t way = random_() % 4;
    if (way < 2) {
      process.signal(SIGTERM);
    }
    if (way == 1) {
      std::this_thread::sleep_for(moment(cycle) / 8);
    }
    if (way > 0) {
      process.signal(SIGKILL);
    }
    diary_.read(process.finish());
  }

  /// Two trainings and a reader, each killed at its own moment.
  void run_beside_each_other(std::uint64_t cycle) {
    std::deque<Process> processes;
    for (const char* const parity : {"0", "1"}) {
      std::vector<std::string> all = arguments(cycle);
      all.insert(all.end(), {parity, "2"});
      processes.emplace_back(CAIRN_TRAINEE, all);
    }
    std::vector<std::string> reader = arguments(cycle);
    reader.emplace_back("reader");
    processes.emplace_back(CAIRN_TRAINEE, reader);
    for (Process& process : processes) {
      process.await_first_word();
    }
    for (Process& process : processes) {
      std::this_thread::sleep_for(moment(cycle));
      process.signal(SIGKILL);
    }
    for (Process& process : processes) {
      diary_.read(process.finish());
    }
  }

  /// What a training would do that comes next.
  [[nodiscard]] std::vector<std::uint64_t> steps_after_one_more() {
    const std::uint64_t step = diary_.highest() + 1;
    diary_.read({"step " + std::to_string(step)});
    CheckpointerOptions options;
    options.keep = kept_by_trainees();
    Checkpointer run(root_.path(), options, context_);
    run.save(step, {{"state", trained(step)}});
    run.close();
    return run.steps();
  }

  const std::uint64_t seed_ = testing::number_from("CAIRN_KILL_SEED", testing::first_number());
  const std::uint64_t cycles_ = testing::number_from("CAIRN_TRAININGS_CYCLES", kCycles);
  const std::string slowest_ =
      std::to_string(testing::number_from("CAIRN_KILL_SLOWEST", kSlowestMilliseconds));
  const cairn::testing::TempDir root_;
  const Context context_;
  TrainingDiary diary_;
  std::mt19937_64 random_;
};

TEST_F(TrainingsTest, LoseNothingThatTheyKeepAndKeepNothingElse) {
  for (std::uint64_t cycle = 0; cycle < cycles_; ++cycle) {
    run_alone(cycle);
    ASSERT_EQ(diary_.complaint(root_.path(), context_), "") << "cycle " << cycle;
    if (cycle % 3 == 0) {
      ASSERT_EQ(diary_.complaint_once_recovered(root_.path(), context_), "") << "cycle " << cycle;
    }
  }

  fmt::print("trainings: {} cycles, {} steps, {} resumed, {} pinned, {} closed, 0 lies (seed {})\n", cycles_,
             diary_.begun(), diary_.resumed(), diary_.pinned(), diary_.closed(), seed_);
  EXPECT_GT(diary_.begun(), cycles_);
  EXPECT_GT(diary_.closed(), cycles_ / 20);
}

TEST_F(TrainingsTest, BesideEachOtherLoseNothing) {
  diary_.expect_others();
  const std::uint64_t rounds = (cycles_ + 4) / 5;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    run_beside_each_other(round);
    ASSERT_EQ(diary_.complaint_once_recovered(root_.path(), context_), "") << "round " << round;
    const std::vector<std::uint64_t> steps = steps_after_one_more();
    std::size_t latest = 0;
    for (const std::uint64_t step : steps) {
      latest += step % kEvery == 0 ? 0 : 1;
    }
    ASSERT_LE(latest, kLatest) << "round " << round;
  }

  fmt::print("trainings: {} rounds of two and a reader, {} steps, {} resumed, 0 lies (seed {})\n", rounds,
             diary_.begun(), diary_.resumed(), seed_);
  EXPECT_GT(diary_.begun(), rounds);
}

/// The diary itself.
class TrainingDiaries : public TrainingsTest {
 protected:
  TrainingDiaries() {
    save({62, 64, 66, 68, 70, 72});
    diary_.read({"resumed none", "step 62", "step 64", "step 66", "step 68", "step 70", "step 72"});
  }

  void save(const std::vector<std::uint64_t>& steps) {
    Checkpointer run(root_.path(), {}, context_);
    for (const std::uint64_t step : steps) {
      run.save(step, {{"state", trained(step)}});
    }
    run.close();
  }
  [[nodiscard]] std::string complaint() { return diary_.complaint(root_.path(), context_); }
  void lose(std::uint64_t step) { std::filesystem::remove_all(root_ / std::to_string(step)); }
};

TEST_F(TrainingDiaries, BelieveWhatMayBe) {
  EXPECT_EQ(complaint(), "");
}

TEST_F(TrainingDiaries, FindWhatIsLost) {
  diary_.read({"committed 72"});
  lose(72);
  EXPECT_EQ(complaint(), "lost: step 72, the newest\n");
}

TEST_F(TrainingDiaries, FindThatWhatThePolicyKeepsIsLost) {
  EXPECT_EQ(complaint(), "");
  lose(64);
  EXPECT_EQ(complaint(), "lost: step 64, which the policy keeps\n");
}

TEST_F(TrainingDiaries, FindThatAPinIsLost) {
  diary_.read({"pin 66", "pinned 66"});
  EXPECT_EQ(complaint(), "lost: the pin of step 66\n");
  lose(66);
  EXPECT_THAT(complaint(), HasSubstr("lost: step 66, which is pinned\n"));
  diary_.read({"unpin 66"});
  EXPECT_EQ(complaint(), "");
}

TEST_F(TrainingDiaries, FindWhatShouldBeGone) {
  diary_.read({"pin 66", "retained 72"});
  EXPECT_EQ(complaint(),
            "excess: of 4 steps up to 72 the policy keeps 3; there are 62, 64, 66, 68, 70, 72\n");
  lose(62);
  EXPECT_EQ(complaint(), "");
  diary_.read({"closed none"});
  EXPECT_EQ(complaint(), "");
  diary_.read({"unpinned 66", "closed 72"});
  EXPECT_EQ(complaint(), "");
  save({74});
  diary_.read({"step 74", "closed 74"});
  EXPECT_EQ(complaint(),
            "excess: of 5 steps up to 74 the policy keeps 3; there are 64, 66, 68, 70, 72, 74\n");
}

TEST_F(TrainingDiaries, FindWhatNobodyHasSaved) {
  std::filesystem::copy(root_ / "70", root_ / "71", std::filesystem::copy_options::recursive);
  EXPECT_EQ(complaint(), "foreign: step 71\ndamage: step 71 is another\n");
}

TEST_F(TrainingDiaries, FindWhatARecoveryHasLeft) {
  std::filesystem::create_directory(root_ / "left");
  EXPECT_EQ(diary_.complaint_once_recovered(root_.path(), context_), "excess: left\n");
}

TEST_F(TrainingDiaries, TellWhatATraineeWasTold) {
  diary_.read({"failed: no"});
  EXPECT_EQ(complaint(), "failed: no\n");
}

}  // namespace
}  // namespace cairn::kill
