// SPDX-License-Identifier: Apache-2.0
#include "core/internal/busy_here.hpp"

#include <gmock/gmock.h>

#include "cairn/core/context.hpp"

#include "core/services.hpp"
#include "support/fails.hpp"

namespace cairn::core {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

TEST(BusyHere, IsNotAThreadOfTheProgram) {
  const Context context;

  EXPECT_FALSE(is_busy_here(*services_of(context)));
  EXPECT_NO_THROW(refuse_here(*services_of(context), "a load"));
}

TEST(BusyHere, IsAThreadOfTheContext) {
  const Context context;
  const Context other;
  const async::Event looked;
  bool is_busy = false;
  bool is_busy_for_other = true;

  services_of(context)->threads.calls.submit([&] {
    is_busy = is_busy_here(*services_of(context));
    is_busy_for_other = is_busy_here(*services_of(other));
    looked.set();
  });
  looked.get();

  EXPECT_TRUE(is_busy);
  EXPECT_FALSE(is_busy_for_other);
}

TEST(BusyHere, IsAThreadThatRunsABlockingPhase) {
  const Context context;
  const Context other;
  {
    const DrivenHere outer(*services_of(context));
    const DrivenHere inner(*services_of(other));

    EXPECT_TRUE(is_busy_here(*services_of(context)));
    EXPECT_THAT([&] { refuse_here(*services_of(context), "a load"); },
                Fails(Errc::invalid_argument, HasSubstr("a load: would deadlock")));
  }

  EXPECT_FALSE(is_busy_here(*services_of(context)));
}

}  // namespace
}  // namespace cairn::core
