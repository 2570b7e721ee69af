// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "cairn/sharding/sharding.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

TEST(Mesh, CountsPositionsRowMajor) {
  const Mesh mesh({2, 4}, {"data", "model"});

  EXPECT_EQ(mesh.size(), 8u);
  EXPECT_EQ(mesh.stride(0), 4u);
  EXPECT_EQ(mesh.stride(1), 1u);
  EXPECT_EQ(mesh.rank_at(5), 5u);
  EXPECT_EQ(mesh.position_of(5), 5u);
  EXPECT_EQ(mesh.position_of(8), std::nullopt);
}

TEST(Mesh, PutsRanksWhereTheListSays) {
  const Mesh mesh({2, 2}, {"a", "b"}, {6, 4, 0, 5});

  EXPECT_EQ(mesh.rank_count(), 7u);
  EXPECT_EQ(mesh.rank_at(1), 4u);
  EXPECT_EQ(mesh.position_of(5), 3u);
  EXPECT_EQ(mesh.position_of(1), std::nullopt);
}

TEST(Mesh, ForgetsAListThatSaysNothing) {
  EXPECT_EQ(Mesh({3}, {"a"}, {0, 1, 2}), Mesh({3}, {"a"}));
}

TEST(Mesh, OfNoAxesHasOnePosition) {
  EXPECT_EQ(Mesh(Shape{}, {}).size(), 1u);
}

TEST(Mesh, RefusesWhatIsNoGrid) {
  const auto fails = [](const char* why) { return Fails(Errc::invalid_argument, HasSubstr(why)); };

  EXPECT_THAT([] { return Mesh({2}, {"a", "b"}); }, fails("1 extents and 2 names"));
  EXPECT_THAT([] { return Mesh({2, 2}, {"a", "a"}); }, fails("two axes are called 'a'"));
  EXPECT_THAT([] { return Mesh({2}, {""}); }, fails("axis 0 has no name"));
  EXPECT_THAT([] { return Mesh({2, 0}, {"a", "b"}); }, fails("axis 'b' has no positions"));
  EXPECT_THAT([] { return Mesh({1 << 23, 3}, {"a", "b"}); }, fails("more than 16777216 positions"));
  EXPECT_THAT([] { return Mesh({UINT64_MAX, 2}, {"a", "b"}); }, fails("positions"));
  EXPECT_THAT([] { return Mesh({2}, {"a"}, {0}); }, fails("1 ranks for the 2 positions of (a=2)"));
  EXPECT_THAT([] { return Mesh({2}, {"a"}, {3, 3}); }, fails("rank 3 is at two positions"));
  EXPECT_THAT([] { return Mesh({2}, {"a"}, {0, kMaxRanks}); }, fails("rank 16777216"));
}

TEST(Mesh, NamesItsAxesWhenAskedForAnother) {
  EXPECT_THAT(
      [] {
        return Mesh({2, 4}, {"data", "model"}).axis("pipe");
      },
      Fails(Errc::invalid_argument, HasSubstr("no axis 'pipe' in (data=2, model=4)")));
}

}  // namespace
}  // namespace cairn
