// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/timeout.hpp"

#include <cstdint>
#include <limits>
#include <ratio>

#include <gtest/gtest.h>

namespace cairn {
namespace {

using std::chrono::duration;
using std::chrono::nanoseconds;

TEST(Timeout, IsExactInWholeUnits) {
  EXPECT_EQ(Timeout(std::chrono::seconds(3)), nanoseconds(3'000'000'000));
  EXPECT_EQ(Timeout(nanoseconds::max() - nanoseconds(1024)), nanoseconds::max() - nanoseconds(1024));
  EXPECT_EQ(Timeout(std::chrono::hours(-1)), std::chrono::hours(-1));
  EXPECT_EQ(Timeout(duration<std::int64_t, std::ratio<1, 3>>(6)), std::chrono::seconds(2));
  EXPECT_EQ(Timeout(), nanoseconds(0));
}

TEST(Timeout, ThatNanosecondsCannotCountIsForEver) {
  EXPECT_EQ(Timeout(std::chrono::seconds::max()), nanoseconds::max());
  EXPECT_EQ(Timeout(std::chrono::hours::max()), nanoseconds::max());
  EXPECT_EQ(Timeout(duration<double>(std::numeric_limits<double>::infinity())), nanoseconds::max());
  EXPECT_EQ(Timeout(duration<std::uint64_t>(std::numeric_limits<std::uint64_t>::max())), nanoseconds::max());
  EXPECT_EQ(Timeout(std::chrono::seconds::min()), -nanoseconds::max());
}

TEST(Timeout, OfNothingIsZero) {
  EXPECT_EQ(Timeout(duration<double>(std::numeric_limits<double>::quiet_NaN())), nanoseconds(0));
}

TEST(Timeout, IsANumberOfNanosecondsForWhoReadsIt) {
  constexpr Timeout kTimeout = std::chrono::milliseconds(5);
  static_assert(kTimeout > kTimeout.zero());
  EXPECT_EQ(kTimeout.count(), 5'000'000);
}

}  // namespace
}  // namespace cairn
