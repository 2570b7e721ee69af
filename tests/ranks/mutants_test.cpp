// SPDX-License-Identifier: Apache-2.0
// The jobs find ranks that say the wrong things: each of these mutants does, in one way; and a rank 0 whose renames
// lie.
#include "verdicts/mutants.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "ranks/campaign.hpp"
#include "ranks/job_history.hpp"
#include "ranks/player.hpp"
#include "ranks/story.hpp"
#include "support/lying_renames.hpp"
#include "support/temp_dir.hpp"

int cairn_mutant = 0;

namespace cairn::ranks {
namespace {

using verdicts::all_mutants;
using verdicts::Mutant;

constexpr std::size_t kJobsAtOnce = 24;
constexpr std::size_t kMostSteps = 5;
constexpr int kMostRounds =
    4;  // Threads take turns as they please: what one round misses, another one finds.

/// For what the ranks of a job wait: the quicker jobs come first, as they find most mutants.
enum class Waits : std::uint8_t { nothing, one_that_is_late, one_that_is_silent };

/// Nothing for jobs that take too long.
std::optional<Waits> waits_of(const Story& story) {
  const auto late =
      std::count_if(story.steps.begin(), story.steps.end(), [](const Step& step) { return step.is_late; });
  const bool is_often_slow = story.disturbances.slow > 0 && story.disturbances.slow < 30;
  if (is_often_slow || story.steps.size() > kMostSteps || story.grace > std::chrono::seconds(1) || late > 1) {
    return std::nullopt;
  }
  if (story.silence) {
    const bool is_last = story.silence->step + 1 == story.steps.size();
    return late == 0 && is_last ? std::optional(Waits::one_that_is_silent) : std::nullopt;
  }
  return late == 0 ? Waits::nothing : Waits::one_that_is_late;
}

std::vector<std::uint64_t> jobs_that_wait_for(Waits what) {
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 1; seeds.size() < kJobsAtOnce; ++seed) {
    if (waits_of(Story(seed)) == what) {
      seeds.push_back(seed);
    }
  }
  return seeds;
}

class RanksOfAMutant : public ::testing::TestWithParam<std::size_t> {
 protected:
  RanksOfAMutant() { cairn_mutant = static_cast<int>(GetParam()); }
  ~RanksOfAMutant() override { cairn_mutant = 0; }
};

TEST_P(RanksOfAMutant, AreCaught) {
  const Mutant& mutant = all_mutants().at(GetParam() - 1);
  ASSERT_FALSE(mutant.is_stale) << mutant.source << " has changed: give " << mutant.name << " its new place";

  std::uint64_t lies = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    for (const Waits what : {Waits::nothing, Waits::one_that_is_late, Waits::one_that_is_silent}) {
      lies += lies == 0 ? play_jobs(jobs_that_wait_for(what), kJobsAtOnce).lies : 0;
    }
  }

  EXPECT_NE(lies, 0U) << mutant.why;
}

INSTANTIATE_TEST_SUITE_P(All, RanksOfAMutant, ::testing::Range<std::size_t>(1, all_mutants().size() + 1),
                         [](const auto& chosen) { return all_mutants().at(chosen.param - 1).name; });

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
