// SPDX-License-Identifier: Apache-2.0
#include "core/lifecycle.hpp"

#include <exception>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>

#include "async/internal/suspend.hpp"
#include "support/fails.hpp"

namespace cairn::core {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

void throw_explained(const Lifecycle& life, const std::exception_ptr& failure) {
  std::rethrow_exception(life.explain(failure));
}

TEST(Lifecycle, IsStoppedOnce) {
  Lifecycle life("save of /a");
  EXPECT_FALSE(life.is_stopped());

  EXPECT_TRUE(life.stop(Errc::timed_out, "late"));
  EXPECT_FALSE(life.stop(Errc::superseded, "a newer one"));

  EXPECT_TRUE(life.is_stopped());
  EXPECT_FALSE(life.is_ending());
  EXPECT_THAT([&] { throw life.reason(); }, Fails(Errc::timed_out, HasSubstr("save of /a: late")));
}

TEST(Lifecycle, SaysThatItWasCancelledWhenNobodyAsked) {
  const Lifecycle life("load of /a");

  EXPECT_THAT([&] { throw life.reason(); }, Fails(Errc::cancelled, HasSubstr("load of /a")));
}

TEST(Lifecycle, IsAnsweredByItsEnd) {
  Lifecycle life("save of /a");

  EXPECT_TRUE(life.end());
  EXPECT_FALSE(life.end());

  EXPECT_TRUE(life.is_ending());
  EXPECT_FALSE(life.give_up());
  EXPECT_FALSE(life.stop(Errc::closed, "too late"));
  EXPECT_FALSE(life.is_stopped());
}

TEST(Lifecycle, IsGivenUpOnlyWhenItWasStopped) {
  Lifecycle life("save of /a");
  EXPECT_FALSE(life.give_up());

  ASSERT_TRUE(life.stop(Errc::timed_out, "late"));

  EXPECT_TRUE(life.give_up());
  EXPECT_TRUE(life.is_given_up());
  EXPECT_FALSE(life.end());
}

TEST(Lifecycle, IsAnsweredByOne) {
  for (int round = 0; round < 500; ++round) {
    Lifecycle life("save of /a");
    ASSERT_TRUE(life.stop(Errc::timed_out, "late"));
    bool has_ended = false;
    bool was_given_up = false;
    {
      const std::jthread ends([&] { has_ended = life.end(); });
      const std::jthread gives_up([&] { was_given_up = life.give_up(); });
    }

    EXPECT_NE(has_ended, was_given_up);
  }
}

TEST(LifecycleExplains, ACancellationByItsReason) {
  Lifecycle life("save of /a");
  EXPECT_THAT([&] { throw_explained(life, async::cancelled()); }, Fails(Errc::cancelled));

  ASSERT_TRUE(life.stop(Errc::closed, "the context was closed"));

  EXPECT_THAT([&] { throw_explained(life, async::cancelled()); }, Fails(Errc::closed));
}

TEST(LifecycleExplains, NoOtherFailure) {
  Lifecycle life("save of /a");
  ASSERT_TRUE(life.stop(Errc::timed_out, "late"));
  const auto failure = std::make_exception_ptr(std::runtime_error("disk"));

  EXPECT_EQ(life.explain(failure), failure);
  EXPECT_EQ(life.explain(nullptr), nullptr);
}

TEST(LifecycleTells, AFailureToAllWhoWaitForMoreThanTheEnd) {
  const Lifecycle life("save of /a");

  life.answer(std::make_exception_ptr(std::runtime_error("disk")));

  EXPECT_THROW(life.prepared().get(), std::runtime_error);
  EXPECT_THROW(life.answered().get(), std::runtime_error);
  EXPECT_NO_THROW(life.told().get());
}

TEST(LifecycleTells, AllAfterThoseWhoListenToTheAnswer) {
  const Lifecycle life("save of /a");
  bool was_told = true;
  life.answered().on_complete([&](const std::exception_ptr&) { was_told = life.told().has_happened(); });

  life.answer(nullptr);

  EXPECT_FALSE(was_told);
  EXPECT_TRUE(life.told().has_happened());
}

TEST(LifecycleTells, NoFailureOfAPreparedOperationToWhoWaitedForThat) {
  const Lifecycle life("save of /a");
  life.prepared().set();

  life.answer(std::make_exception_ptr(std::runtime_error("disk")));

  EXPECT_NO_THROW(life.prepared().get());
}

TEST(LifecycleIsDone, WhenItsEndWasItsAnswer) {
  Lifecycle life("save of /a");
  EXPECT_FALSE(life.is_done());

  ASSERT_TRUE(life.end());
  life.answer(nullptr);

  EXPECT_TRUE(life.is_done());
}

TEST(LifecycleIsDone, AtTheEndWhenItWasGivenUp) {
  Lifecycle life("save of /a");
  ASSERT_TRUE(life.stop(Errc::timed_out, "late"));
  ASSERT_TRUE(life.give_up());
  life.answer(nullptr);
  EXPECT_FALSE(life.is_done());

  life.done().set();

  EXPECT_TRUE(life.is_done());
}

}  // namespace
}  // namespace cairn::core
