// SPDX-License-Identifier: Apache-2.0
// Random jobs of 2 to 4 ranks, in one process, that save sharded trees together: calls of the system are slow, fail, or lose their
// answers, ranks cancel, hurry, forget, fail, or fall silent. What each rank is told is compared with what the others are told and
// with what is there. Prints one line with the counts.
//
// CAIRN_RANKS_JOBS: how many; CAIRN_RANKS_SEED: the first one's seed, the others follow; CAIRN_RANKS_STORY: 1: every job is told.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ranks/job_history.hpp"
#include "ranks/player.hpp"
#include "ranks/story.hpp"
#include "support/lying_renames.hpp"
#include "support/number_from.hpp"
#include "support/temp_dir.hpp"

namespace cairn::ranks {
namespace {

/// Of all jobs together.
struct Figures {
  std::map<std::string, std::uint64_t> ends;
  std::uint64_t saves = 0;
  std::uint64_t failures = 0;
  std::uint64_t slow_calls = 0;
  std::uint64_t lies = 0;
  std::string first_lie;  ///< With the story of its job.
};

void play_one(std::uint64_t seed, std::mutex& mutex, Figures& figures) {
  const testing::TempDir folder;
  const Story story(seed);
  JobHistory history(story, testing::number_from("CAIRN_RANKS_STORY", 0) != 0);
  Player player(story, folder.path(), history);
  player.play();
  const std::lock_guard lock(mutex);
  figures.saves += story.steps.size();
  figures.failures += player.failures();
  figures.slow_calls += player.slow_calls();
  for (const auto& [end, times] : history.ends()) {
    figures.ends[end] += times;
  }
  if (const std::string lies = history.lies(); !lies.empty()) {
    ++figures.lies;
    figures.first_lie +=
        figures.first_lie.empty() ? fmt::format("seed {}: {}\n{}", seed, lies, history.text()) : "";
  }
}

/// Most of a job's time is waited: many at once take hardly longer than one.
Figures play(std::uint64_t first, std::uint64_t jobs) {
  constexpr std::uint64_t kAtOnce = 8;
  Figures figures;
  std::mutex mutex;
  std::atomic<std::uint64_t> next{first};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < std::min(jobs, kAtOnce); ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t seed = next++; seed < first + jobs; seed = next++) {
        play_one(seed, mutex, figures);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return figures;
}

TEST(Ranks, AreToldNothingThatContradicts) {
  const std::uint64_t jobs = testing::number_from("CAIRN_RANKS_JOBS", CAIRN_RANKS_JOBS_IN_CI);
  const std::uint64_t first = testing::number_from("CAIRN_RANKS_SEED", 1);

  const Figures figures = play(first, jobs);

  for (const auto& [end, times] : figures.ends) {
    fmt::print("  {:>8}  {}\n", times, end);
  }
  fmt::print("ranks: {} saves in {} jobs, {} slow calls, {} failed calls, {} jobs with a lie (seed {})\n",
             figures.saves, jobs, figures.slow_calls, figures.failures, figures.lies, first);
  EXPECT_EQ(figures.lies, 0U) << figures.first_lie;
}

/// What is found when the renames of rank 0 lie.
std::string lies_of(testing::RenameLie lie) {
  constexpr std::uint64_t kJobs = 5;
  std::string lies;
  for (std::uint64_t seed = 1; seed <= kJobs; ++seed) {
    const testing::TempDir folder;
    Story story(seed);
    story.disturbances = {};
    story.silence.reset();
    JobHistory history(story, false);
    Player(story, folder.path(), history, std::make_shared<testing::LyingRenames>(lie)).play();
    lies += history.lies() + "\n";
  }
  return lies;
}

TEST(RanksOfALiar, AreFoundToBeToldOfCommitsThatAreNone) {
  EXPECT_THAT(lies_of(testing::RenameLie::forgotten), ::testing::HasSubstr("lost: "));
}

TEST(RanksOfALiar, AreFoundToBeToldOfFailuresThatAppearLater) {
  EXPECT_THAT(lies_of(testing::RenameLie::undead), ::testing::HasSubstr("zombie: "));
}

}  // namespace
}  // namespace cairn::ranks
