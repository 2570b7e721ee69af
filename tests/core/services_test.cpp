// SPDX-License-Identifier: Apache-2.0
#include "core/services.hpp"

#include <cstddef>

#include <gmock/gmock.h>

namespace cairn::core {
namespace {

std::size_t capacity(const ContextOptions& options, std::size_t ranks) {
  return Memory(options, {}, ranks).buffers.capacity_bytes();
}

TEST(StagingMemory, IsSharedWithTheOtherRanksOfTheMachine) {
  const std::size_t alone = capacity(ContextOptions(), 1);

  EXPECT_LE(capacity(ContextOptions(), 4), alone / 4);
  EXPECT_GT(capacity(ContextOptions(), 4), alone / 8);  // But for what is rounded.
}

TEST(StagingMemory, IsWhatItWasAskedFor) {
  ContextOptions options;
  options.staging_bytes = std::size_t{64} << 20;

  EXPECT_EQ(capacity(options, 4), options.staging_bytes);
}

}  // namespace
}  // namespace cairn::core
