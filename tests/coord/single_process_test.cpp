// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "cairn/coord/coordinator.hpp"

#include "support/run.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::run;

TEST(SingleProcess, IsTheOnlyRank) {
  EXPECT_EQ(single_process().rank(), 0U);
  EXPECT_EQ(single_process().size(), 1U);
}

TEST(SingleProcess, GathersItsOwnTextOnly) {
  EXPECT_THAT(run(single_process().gather("mine")), ElementsAre("mine"));
}

TEST(SingleProcess, HearsItsOwnBroadcast) {
  EXPECT_EQ(run(single_process().broadcast("all", 0)), "all");
}

}  // namespace
}  // namespace cairn
