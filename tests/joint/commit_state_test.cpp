// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/commit_state.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace cairn::joint {
namespace {

using State = CommitState::State;

TEST(CommitState, OfASaveThatIsStoppedIsNeverToBePublished) {
  CommitState commit;

  EXPECT_EQ(commit.stop(), State::stopped);

  EXPECT_FALSE(commit.begin_commit());
  EXPECT_FALSE(commit.end_commit());
  EXPECT_EQ(commit.forget(), State::stopped);
}

TEST(CommitState, OfACommitIsNotStopped) {
  CommitState commit;
  EXPECT_TRUE(commit.begin_commit());

  EXPECT_EQ(commit.stop(), State::committing);

  EXPECT_TRUE(commit.begin_commit()) << "a second way to publish, of the same save";
  EXPECT_TRUE(commit.end_commit());
  EXPECT_EQ(commit.forget(), State::committed);
}

TEST(CommitState, ThatNobodyKnowsStaysUnknown) {
  CommitState commit;
  EXPECT_TRUE(commit.begin_commit());

  EXPECT_EQ(commit.forget(), State::unknown);

  EXPECT_FALSE(commit.end_commit());
  EXPECT_FALSE(commit.begin_commit());
  EXPECT_EQ(commit.state(), State::unknown);
}

TEST(CommitState, IsDecidedOnce) {
  for (int round = 0; round < 2000; ++round) {
    CommitState commit;
    std::atomic<bool> may_publish{false};
    State seen{};
    {
      std::jthread publisher([&] { may_publish = commit.begin_commit(); });
      std::jthread stopper([&] { seen = commit.stop(); });
    }

    EXPECT_EQ(may_publish, seen == State::committing);
  }
}

}  // namespace
}  // namespace cairn::joint
