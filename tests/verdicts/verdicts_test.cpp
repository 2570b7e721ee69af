// SPDX-License-Identifier: Apache-2.0
// Random programs against an oracle that knows every promise of the library; see README.md. Prints one line with the
// counts.
//
// CAIRN_VERDICTS_PROGRAMS: how many; CAIRN_VERDICTS_SEED: the first one's seed, the others follow.
// CAIRN_VERDICTS_REAL_TIME: 1: all live by the machine's clock; 0: none. CAIRN_VERDICTS_STORY: 1: every program is
// told.
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/number_from.hpp"
#include "support/sampling.hpp"
#include "verdicts/campaign.hpp"

namespace cairn::verdicts {
namespace {

constexpr std::uint64_t kParts = 2;  ///< Tests that a machine may run at the same time.

class VerdictsTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(VerdictsTest, AreKeptInRandomPrograms) {
  const std::uint64_t programs =
      testing::number_from("CAIRN_VERDICTS_PROGRAMS", testing::share_of(kProgramsInCi));
  const std::uint64_t first = testing::number_from("CAIRN_VERDICTS_SEED", testing::first_number());

  const Figures figures = play_programs(first + GetParam() * 1'000'000, (programs + kParts - 1) / kParts);

  fmt::print("{}", figures.describe());
  EXPECT_EQ(figures.lies, 0U) << figures.first_story;
  EXPECT_EQ(figures.touches, 0U);
}

INSTANTIATE_TEST_SUITE_P(Part, VerdictsTest, ::testing::Range<std::uint64_t>(0, kParts));

}  // namespace
}  // namespace cairn::verdicts
