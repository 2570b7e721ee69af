// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/file_budget.hpp"

#include <gtest/gtest.h>

#include "support/run.hpp"

namespace cairn::staging {
namespace {

TEST(FileBudget, AsksHoldersOnlyWhenSomebodyWaits) {
  const FileBudget budget(2);
  const async::Permit both = testing::run(budget.acquire(2));
  const async::Event asked;
  budget.set_when_wanted(asked);
  EXPECT_FALSE(asked.has_happened());

  asked.on_complete([&both](const std::exception_ptr&) { const_cast<async::Permit&>(both).release(); });
  const async::Permit one = testing::run(budget.acquire(1));

  EXPECT_TRUE(asked.has_happened());
  EXPECT_EQ(budget.taken(), 1u);
}

TEST(FileBudgetShare, OpensItsFirstFileWhateverOthersHaveOpen) {
  const FileBudget budget(2);
  const FileBudget other = budget.fair_share();
  const async::Permit both = testing::run(budget.acquire(2));

  const async::Permit one = testing::run(other.acquire(2));

  EXPECT_EQ(budget.taken(), 4u);
}

}  // namespace
}  // namespace cairn::staging
