// SPDX-License-Identifier: Apache-2.0
// The stage finds a library that breaks its promises: each of these does, in one way.
#include "verdicts/mutants.hpp"

#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/process.hpp"

namespace cairn::verdicts {

namespace {

using ::testing::Contains;
using ::testing::StartsWith;

constexpr std::size_t kPrograms = 150;
constexpr std::size_t kMostPrograms = 400;  // Against a mutant: few live longer than fifty.

std::vector<std::string> play(std::size_t number, std::size_t programs) {
  ::setenv("CAIRN_VERDICTS_PATIENCE", "40", 0);  // Some mutants hang.
  testing::Process player(CAIRN_VERDICTS_MUTANT_PLAYER,
                          {std::to_string(number), "1", std::to_string(programs)});
  return player.finish();
}

TEST(VerdictsOfNoMutant, AreKept) {
  EXPECT_THAT(play(0, kPrograms), Contains(StartsWith("survived:")));
}

class MutantTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(MutantTest, IsCaught) {
  const Mutant& mutant = all_mutants().at(GetParam() - 1);
  ASSERT_FALSE(mutant.is_stale) << mutant.source << " has changed: give " << mutant.name << " its new place";

  const std::vector<std::string> said = play(GetParam(), kMostPrograms);

  // A crash and a hang are found, too: only who says so survives.
  EXPECT_THAT(said, Not(Contains(StartsWith("survived:")))) << mutant.why;
}

INSTANTIATE_TEST_SUITE_P(All, MutantTest, ::testing::Range<std::size_t>(1, all_mutants().size() + 1),
                         [](const auto& chosen) { return all_mutants().at(chosen.param - 1).name; });

}  // namespace
}  // namespace cairn::verdicts
