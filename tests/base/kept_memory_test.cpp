// SPDX-License-Identifier: Apache-2.0
#include "base/internal/kept_memory.hpp"

#include <cstdint>
#include <limits>
#include <memory_resource>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cairn {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(KeptMemory, GivesLargeBlocksOutAgain) {
  KeptMemory memory(64 * kMiB);
  void* first = memory.allocate(3 * kMiB);
  memory.deallocate(first, 3 * kMiB);

  void* second = memory.allocate(4 * kMiB);

  EXPECT_EQ(second, first);
  memory.deallocate(second, 4 * kMiB);
}

TEST(KeptMemory, AlignsLargeBlocksToHugePages) {
  KeptMemory memory(64 * kMiB);

  void* block = memory.allocate(3 * kMiB);

  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (2 * kMiB), 0U);
  memory.deallocate(block, 3 * kMiB);
}

TEST(KeptMemory, KeepsNoMoreThanItMay) {
  KeptMemory memory(4 * kMiB);
  void* first = memory.allocate(4 * kMiB);
  void* second = memory.allocate(4 * kMiB);

  memory.deallocate(first, 4 * kMiB);
  memory.deallocate(second, 4 * kMiB);

  EXPECT_EQ(memory.kept_bytes(), 4 * kMiB);
}

TEST(KeptMemory, KeepsNoSmallBlocks) {
  KeptMemory memory(64 * kMiB);

  memory.deallocate(memory.allocate(kMiB), kMiB);

  EXPECT_EQ(memory.kept_bytes(), 0U);
}

TEST(KeptMemory, DoesNotSpendALargeBlockOnASmallWish) {
  KeptMemory memory(64 * kMiB);
  void* large = memory.allocate(32 * kMiB);
  memory.deallocate(large, 32 * kMiB);

  void* small = memory.allocate(2 * kMiB);

  EXPECT_NE(small, large);
  memory.deallocate(small, 2 * kMiB);
}

TEST(KeptMemory, GivesTheSmallestBlockThatFits) {
  KeptMemory memory(64 * kMiB);
  void* large = memory.allocate(8 * kMiB);
  void* small = memory.allocate(4 * kMiB);
  memory.deallocate(large, 8 * kMiB);
  memory.deallocate(small, 4 * kMiB);

  void* given = memory.allocate(3 * kMiB);

  EXPECT_EQ(given, small);
  memory.deallocate(given, 3 * kMiB);
}

TEST(KeptMemory, SaysWhenThereIsNone) {
  KeptMemory memory(64 * kMiB);

  EXPECT_THROW((void)memory.allocate(std::numeric_limits<std::size_t>::max() / 4), std::bad_alloc);
}

TEST(KeptMemory, ServesSeveralThreads) {
  KeptMemory memory(64 * kMiB);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&memory] {
      for (int round = 0; round < 10; ++round) {
        std::pmr::vector<int> numbers(kMiB, round, &memory);
        EXPECT_EQ(numbers.back(), round);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(memory.kept_bytes(), 64 * kMiB);
}

}  // namespace
}  // namespace cairn
