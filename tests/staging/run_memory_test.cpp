// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/run_memory.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "async/internal/thread_pool.hpp"
#include "base/internal/checked.hpp"
#include "support/run.hpp"
#include "support/sync_wait.hpp"
#include "support/task_scope.hpp"

namespace cairn::staging {
namespace {

using testing::run;

constexpr std::size_t kSlotsOfABuffer = kBufferBytes / kSlotBytes;

std::size_t bytes_of(const RunMemory& memory) {
  std::size_t bytes = 0;
  for (const std::span<std::byte> part : memory.parts()) {
    bytes += part.size();
  }
  return bytes;
}

/// Takes slots one by one, of new buffers where it must.
std::vector<RunMemory> take_slots(SharedBuffers& shared, std::size_t count) {
  std::vector<RunMemory> slots;
  for (std::size_t i = 0; i < count; ++i) {
    slots.push_back(shared.try_acquire(1));
  }
  return slots;
}

Awaitable<> take_and_hold(SharedBuffers shared, std::vector<RunMemory>* held) {
  held->push_back(co_await shared.acquire(1));
}

TEST(SharedBuffers, ServeWhatLeavesASlotFree) {
  EXPECT_TRUE(SharedBuffers::serves(kBufferBytes - kSlotBytes));
  EXPECT_FALSE(SharedBuffers::serves(kBufferBytes - kSlotBytes + 1));
}

TEST(SharedBuffers, HoldAsManySmallRunsAsFitIntoOneBuffer) {
  BufferPool pool(4 * kBufferBytes);
  SharedBuffers shared(pool);

  const std::vector<RunMemory> slots = take_slots(shared, kSlotsOfABuffer);
  EXPECT_EQ(pool.leased_bytes(), kBufferBytes);
  const RunMemory one_more = shared.try_acquire(kSlotBytes);

  EXPECT_EQ(pool.leased_bytes(), 2 * kBufferBytes);
  EXPECT_EQ(bytes_of(one_more), kSlotBytes);
}

TEST(SharedBuffers, GiveNothingToTwoOwners) {
  BufferPool pool(0);
  SharedBuffers shared(pool);
  std::vector<RunMemory> held;
  for (std::size_t i = 0; i < 100; ++i) {
    held.push_back(shared.try_acquire(1 + i * 7919 * 13 % (kBufferBytes - kSlotBytes)));
    for (const std::span<std::byte> part : held.back().parts()) {
      for (std::size_t at = 0; at < part.size(); at += kSlotBytes) {
        part[at] = static_cast<std::byte>(i);
      }
    }
  }

  for (std::size_t i = 0; i < held.size(); ++i) {
    for (const std::span<std::byte> part : held[i].parts()) {
      for (std::size_t at = 0; at < part.size(); at += kSlotBytes) {
        EXPECT_EQ(part[at], static_cast<std::byte>(i));
      }
    }
  }
}

TEST(SharedBuffers, WasteLessThanABufferWhateverTheSizes) {
  BufferPool pool(0);
  SharedBuffers shared(pool);
  std::vector<RunMemory> held;
  std::size_t wanted_bytes = 0;

  for (std::size_t i = 0; i < 300; ++i) {
    const std::size_t bytes = 1 + i * 7919 * 13 % (kBufferBytes - kSlotBytes);
    held.push_back(shared.try_acquire(bytes));
    wanted_bytes += round_up(bytes, kSlotBytes);
    EXPECT_EQ(bytes_of(held.back()), round_up(bytes, kSlotBytes));
    EXPECT_LT(pool.leased_bytes(), wanted_bytes + kBufferBytes);
  }
}

TEST(SharedBuffers, PutARunIntoSeveralPlacesWhereNoneIsLargeEnough) {
  BufferPool pool(2 * kBufferBytes);
  SharedBuffers shared(pool);
  std::vector<RunMemory> slots = take_slots(shared, 2 * kSlotsOfABuffer);
  for (std::size_t i = 0; i < slots.size(); i += 2) {
    slots[i].release();
  }

  const RunMemory run = shared.try_acquire(40 * kSlotBytes);

  EXPECT_EQ(bytes_of(run), 40 * kSlotBytes);
  EXPECT_EQ(run.parts().size(), 40u);
  EXPECT_FALSE(shared.try_acquire(25 * kSlotBytes));
  EXPECT_TRUE(shared.try_acquire(24 * kSlotBytes));
}

TEST(SharedBuffers, GoBackWhenNothingOfThemIsInUse) {
  BufferPool pool(4 * kBufferBytes);
  SharedBuffers shared(pool);
  std::vector<RunMemory> slots = take_slots(shared, kSlotsOfABuffer + 1);

  slots.pop_back();
  EXPECT_EQ(pool.leased_bytes(), kBufferBytes);
  slots.erase(slots.begin(), slots.begin() + 10);
  EXPECT_EQ(pool.leased_bytes(), kBufferBytes);
  slots.clear();

  EXPECT_EQ(pool.leased_bytes(), 0u);
}

TEST(SharedBuffers, AreWaitedForOnceByAllWhoNeedOne) {
  async::ThreadPool threads(2, "test");
  BufferPool pool(2 * kBufferBytes);
  SharedBuffers shared(pool);
  Buffer other = pool.try_acquire();
  std::vector<RunMemory> all = take_slots(shared, kSlotsOfABuffer);
  std::vector<RunMemory> held;
  testing::TaskScope scope(async::make_strand(threads.executor()));
  for (int i = 0; i < 10; ++i) {
    scope.spawn(take_and_hold(shared, &held));
  }
  EXPECT_FALSE(shared.try_acquire(1));

  other.release();
  scope.wait();

  EXPECT_EQ(held.size(), 10u);
  EXPECT_EQ(pool.leased_bytes(), 2 * kBufferBytes);
}

TEST(SharedBuffers, AreLeftAsTheyWereByACancelledWait) {
  async::ThreadPool threads(2, "test");
  BufferPool pool(2 * kBufferBytes);
  SharedBuffers shared(pool);
  std::vector<RunMemory> all = take_slots(shared, 2 * kSlotsOfABuffer);
  std::vector<RunMemory> held;
  testing::TaskScope scope(async::make_strand(threads.executor()));
  scope.spawn(take_and_hold(shared, &held));
  scope.spawn(take_and_hold(shared, &held));

  scope.cancel();
  scope.wait();
  all.clear();

  EXPECT_TRUE(held.empty());
  EXPECT_EQ(pool.leased_bytes(), 0u);
  EXPECT_TRUE(run(shared.acquire(1)));
}

TEST(RunMemory, MayBeABufferOfItsOwn) {
  BufferPool pool(2 * kBufferBytes);
  RunMemory first{pool.try_acquire()};
  ASSERT_EQ(first.parts().size(), 1u);
  EXPECT_EQ(first.parts()[0].size(), kBufferBytes);

  RunMemory second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): moved-from is empty.
  second = RunMemory();

  EXPECT_EQ(pool.leased_bytes(), 0u);
}

}  // namespace
}  // namespace cairn::staging
