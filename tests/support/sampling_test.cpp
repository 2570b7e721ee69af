// SPDX-License-Identifier: Apache-2.0
#include "support/sampling.hpp"

#include <cstdint>
#include <cstdlib>
#include <optional>
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

/// A variable of the environment, for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    before_ = before == nullptr ? std::nullopt : std::optional<std::string>(before);
    ::setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::uint64_t first_number_of(const char* seed) {
  const Variable variable("CAIRN_SEED", seed);
  return first_number();
}

TEST(FirstNumber, IsThatOfTheSeed) {
  EXPECT_EQ(first_number_of("3f2a"), first_number_of("3f2a"));
  EXPECT_NE(first_number_of("3f2a"), first_number_of("fb83"));
  EXPECT_EQ(first_number_of("all"), 1U);
}

TEST(ShareOf, IsSoManyTimesFewerAndAtLeastOne) {
  const Variable variable("CAIRN_ONE_IN", "4");

  EXPECT_EQ(share_of(200), 50U);
  EXPECT_EQ(share_of(3), 1U);
}

}  // namespace
}  // namespace cairn::testing
