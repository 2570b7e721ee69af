// SPDX-License-Identifier: Apache-2.0
#include "support/sampling.hpp"

#include <cstdint>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace cairn::testing {
namespace {

std::set<std::uint64_t> taken(const Sample& sample, std::uint64_t count) {
  std::set<std::uint64_t> indices;
  for (std::uint64_t index = 0; index < count; ++index) {
    if (sample.takes(index)) {
      indices.insert(index);
    }
  }
  return indices;
}

TEST(Sample, TakesOneOfEachSoMany) {
  const std::set<std::uint64_t> indices = taken(Sample(16, "seed"), 160);

  std::set<std::uint64_t> blocks;
  for (const std::uint64_t index : indices) {
    blocks.insert(index / 16);
  }
  EXPECT_EQ(indices.size(), 10U);
  EXPECT_EQ(blocks.size(), 10U);
}

TEST(Sample, OfOneSeedIsTheSameAgain) {
  EXPECT_EQ(taken(Sample(16, "seed"), 1000), taken(Sample(16, "seed"), 1000));
}

TEST(Sample, OfAnotherSeedIsAnother) {
  EXPECT_NE(taken(Sample(16, "one"), 1000), taken(Sample(16, "another"), 1000));
}

TEST(Sample, OfManySeedsIsEverything) {
  std::set<std::uint64_t> indices;
  for (int i = 0; i < 300; ++i) {
    indices.merge(taken(Sample(16, "commit " + std::to_string(i)), 160));
  }

  EXPECT_EQ(indices.size(), 160U);
}

TEST(Sample, HasBytesAtAllAlignments) {
  std::set<std::uint64_t> remainders;
  for (const std::uint64_t index : taken(Sample(16, "seed"), 1600)) {
    remainders.insert(index % 8);
  }

  EXPECT_EQ(remainders.size(), 8U);
}

TEST(Sample, WithTheSeedAllIsEverything) {
  EXPECT_EQ(taken(Sample(16, "all"), 100).size(), 100U);
}

TEST(Sample, OfOneInOneIsEverything) {
  EXPECT_EQ(taken(Sample(1, "seed"), 100).size(), 100U);
}

}  // namespace
}  // namespace cairn::testing
