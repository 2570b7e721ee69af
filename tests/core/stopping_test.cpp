// SPDX-License-Identifier: Apache-2.0
#include "core/stopping.hpp"

#include <exception>
#include <stdexcept>

#include <gmock/gmock.h>

#include "async/internal/suspend.hpp"
#include "support/fails.hpp"

namespace cairn::core {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

void throw_explained(const Stopping& stopping, const std::exception_ptr& failure) {
  std::rethrow_exception(stopping.explain(failure));
}

TEST(Stopping, IsAskedForOnce) {
  Stopping stopping("save of /a");
  EXPECT_FALSE(stopping.is_asked());

  EXPECT_TRUE(stopping.ask(Errc::timed_out, "late"));
  EXPECT_FALSE(stopping.ask(Errc::superseded, "a newer one"));

  EXPECT_TRUE(stopping.is_asked());
  EXPECT_THAT([&] { throw stopping.reason(); }, Fails(Errc::timed_out, HasSubstr("save of /a: late")));
}

TEST(Stopping, IsACancellationWhenNobodyAsked) {
  const Stopping stopping("load of /a");

  EXPECT_THAT([&] { throw stopping.reason(); }, Fails(Errc::cancelled, HasSubstr("load of /a")));
}

TEST(StoppingExplains, ACancellationByItsReason) {
  Stopping stopping("save of /a");
  EXPECT_THAT([&] { throw_explained(stopping, async::cancelled()); }, Fails(Errc::cancelled));

  stopping.ask(Errc::closed, "the context was closed");

  EXPECT_THAT([&] { throw_explained(stopping, async::cancelled()); }, Fails(Errc::closed));
}

TEST(StoppingExplains, NoOtherFailure) {
  Stopping stopping("save of /a");
  stopping.ask(Errc::timed_out, "late");
  const auto failure = std::make_exception_ptr(std::runtime_error("disk"));

  EXPECT_EQ(stopping.explain(failure), failure);
  EXPECT_EQ(stopping.explain(nullptr), nullptr);
}

}  // namespace
}  // namespace cairn::core
