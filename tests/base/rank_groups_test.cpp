// SPDX-License-Identifier: Apache-2.0
#include "base/internal/rank_groups.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Groups = std::vector<std::optional<RankGroup>>;

std::optional<RankGroup> of(std::vector<std::uint32_t> ranks) {
  return group_of(ranks);
}

TEST(RankGroups, AreOneWhereNobodyNamesAny) {
  EXPECT_THAT(number_groups(Groups(3)), IsEmpty());
  EXPECT_THAT(number_groups(Groups()), IsEmpty());
}

TEST(RankGroups, AreNumberedByTheirLowestRanks) {
  EXPECT_THAT(number_groups(Groups{of({0, 2}), of({1, 3}), of({2, 0}), of({3, 1, 3})}),
              ElementsAre(0, 1, 0, 1));
}

TEST(RankGroups, OfARankThatNamesNoneAreAllRanks) {
  EXPECT_THAT(number_groups(Groups{of({0, 1}), std::nullopt}), ElementsAre(0, 0));
}

TEST(RankGroups, ThatContradictEachOtherAreRefused) {
  EXPECT_THAT(
      [] {
        static_cast<void>(number_groups(Groups{of({0, 1}), of({1, 2}), of({2})}));
      },
      Fails(Errc::invalid_argument,
            HasSubstr("groups of ranks contradict each other: the group that rank 0 names")));
  EXPECT_THAT(
      [] {
        static_cast<void>(number_groups(Groups{of({0}), std::nullopt, std::nullopt}));
      },
      Fails(Errc::invalid_argument, HasSubstr("the group that ranks 1 and 2 name")));
}

TEST(RankGroups, ContainTheRankThatNamesThem) {
  const std::vector<std::uint32_t> ranks = {0, 2};

  EXPECT_EQ(own_group(2, ranks), of({2, 0}));
  EXPECT_EQ(own_group(2, {}), std::nullopt);
  EXPECT_THAT([&] { static_cast<void>(own_group(3, ranks)); },
              Fails(Errc::invalid_argument, HasSubstr("rank 3 says that its group is ranks 0 and 2")));
}

TEST(RankGroups, ComeBack) {
  for (const auto& group : {std::optional<RankGroup>(), of({7, 5})}) {
    std::string text;
    put_group(text, group);
    std::string_view rest = text;

    EXPECT_EQ(take_group(rest), group);
    EXPECT_THAT(rest, IsEmpty());
  }
}

}  // namespace
}  // namespace cairn
