// SPDX-License-Identifier: Apache-2.0
// Forged histories: each lie that a target, or an answer, can tell is found, and what may be is not called one.
#include "support/target_history.hpp"

#include <system_error>

#include <exception>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"

namespace cairn::testing {
namespace {

constexpr std::optional<TargetHistory::Number> kNothing;

std::string kind(const std::optional<Lie>& lie) {
  return lie ? lie->kind : "";
}

class TargetHistoryTest : public ::testing::Test {
 protected:
  /// A save that is told before anything else happens.
  void save(TargetHistory::Number number, Answer answer = Answer::done) {
    history_.begin_save(number);
    ASSERT_EQ(kind(history_.answer(number, answer)), "");
  }

  void remove(TargetHistory::Number number) {
    history_.begin_removal(number);
    ASSERT_EQ(kind(history_.answer(number, Answer::done)), "");
  }

  TargetHistory history_{"step"};
};

TEST_F(TargetHistoryTest, AllowsNothingAtFirstAndOnlyTheLastSaveLater) {
  EXPECT_EQ(kind(history_.see(kNothing)), "");
  save(1);
  save(2);
  EXPECT_EQ(kind(history_.see(2)), "");
  EXPECT_EQ(kind(history_.see(1)), "order");
  EXPECT_EQ(kind(history_.see(kNothing)), "lost");
  EXPECT_EQ(kind(history_.see(7)), "damage");
}

TEST_F(TargetHistoryTest, CallsAFailedSaveThatIsThereAZombie) {
  save(1);
  save(2, Answer::failed);

  EXPECT_EQ(kind(history_.see(1)), "");
  EXPECT_EQ(kind(history_.see(2)), "zombie");
}

TEST_F(TargetHistoryTest, CallsASaveThatFailsAfterItWasSeenAZombie) {
  history_.begin_save(1);
  ASSERT_EQ(kind(history_.see(1)), "");

  EXPECT_EQ(kind(history_.answer(1, Answer::failed)), "zombie");
}

TEST_F(TargetHistoryTest, AllowsEitherAfterAnUnknownSaveUntilOneIsSeen) {
  save(1);
  save(2, Answer::unknown);

  EXPECT_EQ(kind(history_.see(1)), "");
  EXPECT_EQ(kind(history_.see(2)), "");
  EXPECT_EQ(kind(history_.see(kNothing)), "lost");
  save(3);
  EXPECT_EQ(kind(history_.see(2)), "order");
}

TEST_F(TargetHistoryTest, KeepsTheOrderOfCallsWhosePlaceIsTakenAndNoOther) {
  history_.begin_save(1);
  history_.place(1);
  history_.begin_save(2);
  history_.begin_save(3);
  ASSERT_EQ(kind(history_.answer(3, Answer::done)), "");

  EXPECT_EQ(kind(history_.see(1)), "order");
  EXPECT_EQ(kind(history_.see(2)), "");  // It may have come after the third, whoever was told first.
}

TEST_F(TargetHistoryTest, KeepsTheOrderOfCallsThatNobodyWasToldOfWhenAllHaveEnded) {
  history_.begin_save(1);
  history_.settle();
  save(2);

  EXPECT_EQ(kind(history_.see(1)), "order");
}

TEST_F(TargetHistoryTest, JudgesALookByWhatWasKnownWhenItBegan) {
  save(1);
  const TargetHistory::Tick since = history_.now();
  save(2);

  EXPECT_EQ(kind(history_.see(1, since)), "");
  EXPECT_EQ(kind(history_.see(1)), "order");
}

TEST_F(TargetHistoryTest, TakesWhatWasSeenForDone) {
  save(1);
  history_.begin_save(2);
  ASSERT_EQ(kind(history_.see(2)), "");

  EXPECT_EQ(kind(history_.see(1)), "order");
}

TEST_F(TargetHistoryTest, AllowsNothingAfterARemovalThatHasNotFailed) {
  save(1);
  remove(2);
  EXPECT_EQ(kind(history_.see(kNothing)), "");
  EXPECT_EQ(kind(history_.see(1)), "order");
  save(3);
  EXPECT_EQ(kind(history_.see(kNothing)), "lost");
  history_.begin_removal(4);
  EXPECT_EQ(kind(history_.see(kNothing)), "");
  ASSERT_EQ(kind(history_.answer(4, Answer::failed)), "");
  EXPECT_EQ(kind(history_.see(kNothing)), "lost");
}

TEST_F(TargetHistoryTest, RefusesAnswersThatCannotBe) {
  history_.begin_removal(1);
  EXPECT_EQ(kind(history_.answer(1, Answer::done)), "verdict");
  save(2);
  history_.begin_save(3, false);
  EXPECT_FALSE(history_.may_have_been_absent_for(3));
  EXPECT_TRUE(history_.may_have_existed_for(3));
  EXPECT_EQ(kind(history_.answer(3, Answer::done)), "verdict");
}

TEST_F(TargetHistoryTest, HoldsWhatItWasFoundToHoldWhenNothingRanAnyMore) {
  save(1);
  save(2, Answer::unknown);
  history_.restart(1);
  EXPECT_EQ(kind(history_.see(1)), "");
  EXPECT_EQ(kind(history_.see(2)), "damage");
  history_.restart(kNothing);
  EXPECT_EQ(kind(history_.see(kNothing)), "");
  EXPECT_EQ(kind(history_.see(1)), "damage");
}

TEST_F(TargetHistoryTest, IsBusyWhileACallMayTakeEffect) {
  history_.begin_save(1);
  EXPECT_TRUE(history_.is_busy());
  ASSERT_EQ(kind(history_.answer(1, Answer::done)), "");
  EXPECT_FALSE(history_.is_busy());
}

TEST(AnswerOf, TellsUnknownFromFailed) {
  const auto unknown = std::make_exception_ptr(Error(Errc::commit_unknown, "step"));
  const auto late = std::make_exception_ptr(Error(Errc::timed_out, "step"));
  const auto absent = std::make_exception_ptr(Error(Errc::not_found, "step"));

  EXPECT_EQ(answer_of_save(nullptr), Answer::done);
  EXPECT_EQ(answer_of_save(unknown), Answer::unknown);
  EXPECT_EQ(answer_of_save(late), Answer::failed);
  EXPECT_EQ(answer_of_removal(nullptr), Answer::done);
  EXPECT_EQ(answer_of_removal(late), Answer::unknown);
  EXPECT_EQ(answer_of_removal(absent), Answer::failed);
}

}  // namespace
}  // namespace cairn::testing
