// SPDX-License-Identifier: Apache-2.0
// Random jobs of 2 to 4 ranks, in one process, that save sharded trees together: calls of the system are slow, fail,
// or lose their answers, ranks cancel, hurry, forget, fail, or fall silent. What each rank is told is compared with
// what the others are told and with what is there. Prints one line with the counts.
//
// CAIRN_RANKS_JOBS: how many; CAIRN_RANKS_SEED: the first one's seed, the others follow; CAIRN_RANKS_STORY: 1: every
// job is told.
#include <cstdint>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ranks/campaign.hpp"
#include "support/number_from.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"

namespace cairn::ranks {
namespace {

constexpr std::size_t kJobsAtOnce = testing::kHasSanitizer ? 4 : 8;

TEST(Ranks, AreToldNothingThatContradicts) {
  const std::uint64_t jobs = testing::number_from("CAIRN_RANKS_JOBS", CAIRN_RANKS_JOBS_IN_CI);
  const std::uint64_t first = testing::number_from("CAIRN_RANKS_SEED", testing::first_number());

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

}  // namespace
}  // namespace cairn::ranks
