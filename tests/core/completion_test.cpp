// SPDX-License-Identifier: Apache-2.0
#include "core/completion.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace cairn::core {
namespace {

TEST(Completion, LetsOneDecideHowItEnds) {
  Completion completion;
  EXPECT_FALSE(completion.is_ending());

  EXPECT_TRUE(completion.claim_end());
  EXPECT_FALSE(completion.claim_end());

  EXPECT_TRUE(completion.is_ending());
}

TEST(Completion, TellsAFailureToAllWhoWaitForMoreThanTheEnd) {
  const Completion completion;

  completion.answer(std::make_exception_ptr(std::runtime_error("disk")));

  EXPECT_THROW(completion.prepared().get(), std::runtime_error);
  EXPECT_THROW(completion.answered().get(), std::runtime_error);
  EXPECT_NO_THROW(completion.told().get());
}

TEST(Completion, IsToldAfterAllWhoListenToTheAnswer) {
  const Completion completion;
  bool was_told = true;
  completion.answered().on_complete(
      [&](const std::exception_ptr&) { was_told = completion.told().has_happened(); });

  completion.answer(nullptr);

  EXPECT_FALSE(was_told);
  EXPECT_TRUE(completion.told().has_happened());
}

TEST(Completion, LeavesAPreparedOperationPrepared) {
  const Completion completion;
  completion.prepared().set();

  completion.answer(std::make_exception_ptr(std::runtime_error("disk")));

  EXPECT_NO_THROW(completion.prepared().get());
}

TEST(Completion, IsDoneWhenItsEndWasItsAnswer) {
  const Completion completion;
  EXPECT_FALSE(completion.is_done());

  completion.answer(nullptr);

  EXPECT_TRUE(completion.is_done());
}

TEST(Completion, IsDoneAtTheEndWhenItWasGivenUp) {
  Completion completion;
  completion.give_up();
  completion.answer(nullptr);
  EXPECT_FALSE(completion.is_done());

  completion.done().set();

  EXPECT_TRUE(completion.is_done());
}

}  // namespace
}  // namespace cairn::core
