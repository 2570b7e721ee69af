// SPDX-License-Identifier: Apache-2.0
#include "store/internal/publication_order.hpp"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cairn::store {
namespace {

class Order : public ::testing::Test {
 protected:
  std::shared_ptr<PublicationOrder::Ticket> enter(std::uint64_t inode, const char* name) const {
    return PublicationOrder::enter(order_, {1, inode}, name);
  }

  const std::shared_ptr<PublicationOrder> order_ = std::make_shared<PublicationOrder>();
};

TEST_F(Order, IsThatOfTheCalls) {
  auto first = enter(7, "step");
  auto second = enter(7, "step");
  auto third = enter(7, "step");
  EXPECT_TRUE(first->turn().has_happened());
  EXPECT_FALSE(second->turn().has_happened());

  first.reset();
  EXPECT_TRUE(second->turn().has_happened());
  EXPECT_FALSE(third->turn().has_happened());
  second.reset();

  EXPECT_TRUE(third->turn().has_happened());
}

TEST_F(Order, LetsNobodyPastAPlaceWhenOneBehindItGoes) {
  auto first = enter(7, "step");
  auto second = enter(7, "step");
  auto third = enter(7, "step");

  second.reset();
  EXPECT_FALSE(third->turn().has_happened());
  first.reset();

  EXPECT_TRUE(third->turn().has_happened());
}

TEST_F(Order, OfOtherTargetsIsTheirOwn) {
  const auto first = enter(7, "step");

  EXPECT_TRUE(enter(7, "other")->turn().has_happened());
  EXPECT_TRUE(enter(8, "step")->turn().has_happened());
}

TEST_F(Order, BeginsAnewWhenAllHaveGone) {
  { const auto first = enter(7, "step"); }

  EXPECT_TRUE(enter(7, "step")->turn().has_happened());
}

TEST_F(Order, LetsNobodyEnterMeanwhile) {
  std::vector<int> entered;
  std::jthread other;
  const auto first = PublicationOrder::enter(order_, {1, 7}, "step", [&] {
    other = std::jthread([&] {
      static_cast<void>(PublicationOrder::enter(order_, {1, 8}, "another", [&] { entered.push_back(2); }));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Long enough for one who could enter.
    entered.push_back(1);
  });
  other.join();

  EXPECT_EQ(entered, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace cairn::store
