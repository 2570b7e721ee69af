// SPDX-License-Identifier: Apache-2.0
#include "contract/internal/kept_values.hpp"

#include <cstddef>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace cairn::contract {
namespace {

KeptValues::Key key_of(std::size_t number) {
  return {std::to_string(number), typeid(int)};
}

TEST(KeptValues, AreFoundByNameAndType) {
  KeptValues kept;
  const auto value = std::make_shared<const int>(7);
  kept.keep({"state", typeid(int)}, value);

  EXPECT_EQ(kept.find({"state", typeid(int)}), value);
  EXPECT_EQ(kept.find({"state", typeid(long)}), nullptr);
  EXPECT_EQ(kept.find({"model", typeid(int)}), nullptr);
}

TEST(KeptValues, AreReplaced) {
  KeptValues kept;
  const auto first = std::make_shared<const int>(1);
  const auto second = std::make_shared<const int>(2);
  kept.keep(key_of(0), first);
  kept.keep(key_of(0), second);

  EXPECT_EQ(kept.find(key_of(0)), second);
  EXPECT_EQ(first.use_count(), 1);
}

TEST(KeptValues, ForgetWhatWasNotAskedForTheLongest) {
  KeptValues kept;
  for (std::size_t i = 0; i < KeptValues::kMost; ++i) {
    kept.keep(key_of(i), std::make_shared<const int>(1));
  }
  EXPECT_NE(kept.find(key_of(0)), nullptr);

  kept.keep(key_of(KeptValues::kMost), std::make_shared<const int>(1));

  EXPECT_NE(kept.find(key_of(0)), nullptr);
  EXPECT_EQ(kept.find(key_of(1)), nullptr);
  EXPECT_NE(kept.find(key_of(2)), nullptr);
  EXPECT_NE(kept.find(key_of(KeptValues::kMost)), nullptr);
}

}  // namespace
}  // namespace cairn::contract
