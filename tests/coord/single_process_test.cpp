// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "cairn/coord/coordinator.hpp"

#include "support/fails.hpp"
#include "support/run.hpp"

namespace cairn::coord {
namespace {

using ::testing::ElementsAre;
using testing::run;

TEST(SingleProcess, IsTheOnlyRank) {
  EXPECT_EQ(single_process()->rank(), 0U);
  EXPECT_EQ(single_process()->size(), 1U);
  EXPECT_EQ(single_process()->ranks_on_host(), 1U);
}

TEST(SingleProcess, TalksToItself) {
  Session session = single_process()->join();
  Channel channel = session.channel("it");

  EXPECT_THAT(run(channel.gather("mine")), ElementsAre("mine"));
  EXPECT_EQ(run(channel.broadcast("all")), "all");
  EXPECT_EQ(run(channel.scatter({"part"})), "part");
  run(channel.agree("names", "same"));
  session.leave();
}

TEST(SingleProcess, RefusesAScatterOfTheWrongNumberOfTexts) {
  Session session = single_process()->join();

  EXPECT_THAT(
      [&] {
        (void)session.channel("it").scatter({"one", "two"});
      },
      testing::Fails(Errc::invalid_argument, ::testing::HasSubstr("2 texts for the 1 ranks of 'it'")));
  session.leave();
}

}  // namespace
}  // namespace cairn::coord
