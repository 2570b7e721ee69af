// SPDX-License-Identifier: Apache-2.0
#include "core/internal/fate.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace cairn::core {
namespace {

using State = Fate::State;

TEST(Fate, OfASaveThatIsStoppedIsNeverToBePublished) {
  Fate fate;

  EXPECT_EQ(fate.stop(), State::stopped);

  EXPECT_FALSE(fate.begin_commit());
  EXPECT_FALSE(fate.end_commit());
  EXPECT_EQ(fate.forget(), State::stopped);
}

TEST(Fate, OfACommitIsNotStopped) {
  Fate fate;
  EXPECT_TRUE(fate.begin_commit());

  EXPECT_EQ(fate.stop(), State::committing);

  EXPECT_TRUE(fate.begin_commit()) << "a second way to publish, of the same save";
  EXPECT_TRUE(fate.end_commit());
  EXPECT_EQ(fate.forget(), State::committed);
}

TEST(Fate, ThatNobodyKnowsStaysUnknown) {
  Fate fate;
  EXPECT_TRUE(fate.begin_commit());

  EXPECT_EQ(fate.forget(), State::unknown);

  EXPECT_FALSE(fate.end_commit());
  EXPECT_FALSE(fate.begin_commit());
  EXPECT_EQ(fate.state(), State::unknown);
}

TEST(Fate, IsDecidedOnce) {
  for (int round = 0; round < 2000; ++round) {
    Fate fate;
    std::atomic<bool> may_publish{false};
    State seen{};
    {
      std::jthread publisher([&] { may_publish = fate.begin_commit(); });
      std::jthread stopper([&] { seen = fate.stop(); });
    }

    EXPECT_EQ(may_publish, seen == State::committing);
  }
}

}  // namespace
}  // namespace cairn::core
