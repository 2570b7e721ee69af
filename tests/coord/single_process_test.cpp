// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "cairn/coord/coordinator.hpp"

#include "support/fails.hpp"
#include "support/run.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::run;

TEST(SingleProcess, IsTheOnlyRank) {
  EXPECT_EQ(single_process()->rank(), 0U);
  EXPECT_EQ(single_process()->size(), 1U);
  EXPECT_EQ(single_process()->ranks_on_host(), 1U);
}

TEST(SingleProcess, TalksToItself) {
  Conversation conversation = single_process()->join();
  Subject subject = conversation.about("it");

  EXPECT_THAT(run(subject.gather("mine")), ElementsAre("mine"));
  EXPECT_EQ(run(subject.broadcast("all")), "all");
  EXPECT_EQ(run(subject.scatter({"part"})), "part");
  run(subject.agree("names", "same"));
  conversation.leave();
}

TEST(SingleProcess, RefusesAScatterOfTheWrongNumberOfTexts) {
  Conversation conversation = single_process()->join();

  EXPECT_THAT(
      [&] {
        (void)conversation.about("it").scatter({"one", "two"});
      },
      testing::Fails(Errc::invalid_argument, ::testing::HasSubstr("2 texts for the 1 ranks of 'it'")));
  conversation.leave();
}

}  // namespace
}  // namespace cairn
