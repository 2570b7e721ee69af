// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/device.hpp"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Device, IsTheHostByDefault) {
  EXPECT_TRUE(Device().is_host());
  EXPECT_EQ(to_string(Device()), "cpu");
}

TEST(Device, IsShownWithItsNumber) {
  const Device device{Device::Kind::cuda, 3};

  EXPECT_FALSE(device.is_host());
  EXPECT_EQ(to_string(device), "cuda:3");
}

}  // namespace
}  // namespace cairn
