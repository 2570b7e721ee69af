// SPDX-License-Identifier: Apache-2.0
#include "core/milestones.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace cairn::core {
namespace {

TEST(Milestones, LetOneDecideHowItEnds) {
  Milestones milestones;
  EXPECT_FALSE(milestones.is_ending());

  EXPECT_TRUE(milestones.claim_end());
  EXPECT_FALSE(milestones.claim_end());

  EXPECT_TRUE(milestones.is_ending());
}

TEST(Milestones, TellAFailureToAllWhoWaitForMoreThanTheEnd) {
  const Milestones milestones;

  milestones.answer(std::make_exception_ptr(std::runtime_error("disk")));

  EXPECT_THROW(milestones.prepared().get(), std::runtime_error);
  EXPECT_THROW(milestones.answered().get(), std::runtime_error);
  EXPECT_NO_THROW(milestones.told().get());
}

TEST(Milestones, AreToldAfterAllWhoListenToTheAnswer) {
  const Milestones milestones;
  bool was_told = true;
  milestones.answered().on_complete(
      [&](const std::exception_ptr&) { was_told = milestones.told().has_happened(); });

  milestones.answer(nullptr);

  EXPECT_FALSE(was_told);
  EXPECT_TRUE(milestones.told().has_happened());
}

TEST(Milestones, LeaveAPreparedOperationPrepared) {
  const Milestones milestones;
  milestones.prepared().set();

  milestones.answer(std::make_exception_ptr(std::runtime_error("disk")));

  EXPECT_NO_THROW(milestones.prepared().get());
}

TEST(Milestones, AreReachedAllWhenItsEndWasItsAnswer) {
  const Milestones milestones;
  EXPECT_FALSE(milestones.is_done());

  milestones.answer(nullptr);

  EXPECT_TRUE(milestones.is_done());
}

TEST(Milestones, AreReachedAllAtTheEndWhenItWasGivenUp) {
  Milestones milestones;
  milestones.give_up();
  milestones.answer(nullptr);
  EXPECT_FALSE(milestones.is_done());

  milestones.done().set();

  EXPECT_TRUE(milestones.is_done());
}

}  // namespace
}  // namespace cairn::core
