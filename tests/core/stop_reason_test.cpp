// SPDX-License-Identifier: Apache-2.0
#include "core/stop_reason.hpp"

#include <exception>
#include <stdexcept>

#include <gmock/gmock.h>

#include "async/internal/suspend.hpp"
#include "support/fails.hpp"

namespace cairn::core {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

void throw_explained(const StopReason& stop_reason, const std::exception_ptr& failure) {
  std::rethrow_exception(stop_reason.explain(failure));
}

TEST(StopReason, IsAskedForOnce) {
  StopReason stop_reason("save of /a");
  EXPECT_FALSE(stop_reason.is_set());

  EXPECT_TRUE(stop_reason.set(Errc::timed_out, "late"));
  EXPECT_FALSE(stop_reason.set(Errc::superseded, "a newer one"));

  EXPECT_TRUE(stop_reason.is_set());
  EXPECT_THAT([&] { throw stop_reason.error(); }, Fails(Errc::timed_out, HasSubstr("save of /a: late")));
}

TEST(StopReason, IsACancellationWhenNobodyAsked) {
  const StopReason stop_reason("load of /a");

  EXPECT_THAT([&] { throw stop_reason.error(); }, Fails(Errc::cancelled, HasSubstr("load of /a")));
}

TEST(StopReasonExplains, ACancellationByItsReason) {
  StopReason stop_reason("save of /a");
  EXPECT_THAT([&] { throw_explained(stop_reason, async::cancelled()); }, Fails(Errc::cancelled));

  stop_reason.set(Errc::closed, "the context was closed");

  EXPECT_THAT([&] { throw_explained(stop_reason, async::cancelled()); }, Fails(Errc::closed));
}

TEST(StopReasonExplains, NoOtherFailure) {
  StopReason stop_reason("save of /a");
  stop_reason.set(Errc::timed_out, "late");
  const auto failure = std::make_exception_ptr(std::runtime_error("disk"));

  EXPECT_EQ(stop_reason.explain(failure), failure);
  EXPECT_EQ(stop_reason.explain(nullptr), nullptr);
}

}  // namespace
}  // namespace cairn::core
