// SPDX-License-Identifier: Apache-2.0
// Random jobs of 2 to 4 ranks, in one process, that save sharded trees together: calls of the system are slow, fail, or lose their
// answers, ranks cancel, hurry, forget, fail, or fall silent. What each rank is told is compared with what the others are told and
// with what is there. Prints one line with the counts.
//
// CAIRN_RANKS_JOBS: how many; CAIRN_RANKS_SEED: the first one's seed, the others follow; CAIRN_RANKS_STORY: 1: every job is told.
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ranks/campaign.hpp"
#include "ranks/job_history.hpp"
#include "ranks/player.hpp"
#include "ranks/story.hpp"
#include "support/lying_renames.hpp"
#include "support/number_from.hpp"
#include "support/temp_dir.hpp"

namespace cairn::ranks {
namespace {

constexpr std::size_t kJobsAtOnce = 8;

TEST(Ranks, AreToldNothingThatContradicts) {
  const std::uint64_t jobs = testing::number_from("CAIRN_RANKS_JOBS", CAIRN_RANKS_JOBS_IN_CI);
  const std::uint64_t first = testing::number_from("CAIRN_RANKS_SEED", 1);

  std::vector<std::uint64_t> seeds(jobs);
  std::iota(seeds.begin(), seeds.end(), first);

  const Figures figures = play_jobs(seeds, kJobsAtOnce);

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
