// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/buffer_pool.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "async/internal/event.hpp"
#include "async/internal/sleep.hpp"
#include "async/internal/thread_pool.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"
#include "support/sync_wait.hpp"
#include "support/task_scope.hpp"

namespace cairn::staging {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::eventually;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::run;

constexpr std::size_t kTwo = 2 * kBufferBytes;

Awaitable<> take_and_note(BufferPool pool, int number, std::vector<int>* order) {
  const Buffer buffer = co_await pool.acquire();
  order->push_back(number);
}

TEST(BufferPool, RoundsItsCapacityDownToWholeBuffers) {
  EXPECT_EQ(BufferPool(3 * kBufferBytes + 1).capacity_bytes(), 3 * kBufferBytes);
}

TEST(BufferPool, HoldsTwoBuffersAtLeast) {
  EXPECT_EQ(BufferPool(1).capacity_bytes(), kTwo);
}

TEST(BufferPool, TakesNoMemoryBeforeItIsNeeded) {
  EXPECT_EQ(BufferPool(kTwo).allocated_bytes(), 0U);
}

TEST(BufferPoolAcquire, GivesPageAlignedMemoryOfFullSize) {
  BufferPool pool(kTwo);

  const Buffer buffer = run(pool.acquire());

  EXPECT_EQ(buffer.bytes().size(), kBufferBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % 4096, 0U);
  EXPECT_EQ(pool.leased_bytes(), kBufferBytes);
}

TEST(BufferPoolAcquire, GivesEveryBufferToOneOwner) {
  BufferPool pool(20 * kBufferBytes);
  std::vector<Buffer> buffers;
  std::set<const std::byte*> addresses;

  for (int i = 0; i < 20; ++i) {
    buffers.push_back(run(pool.acquire()));
    std::memset(buffers.back().bytes().data(), i, kBufferBytes);
    addresses.insert(buffers.back().bytes().data());
  }

  EXPECT_EQ(addresses.size(), 20U);
  for (int i = 0; i < 20; ++i) {
    const auto bytes = buffers[static_cast<std::size_t>(i)].bytes();
    EXPECT_EQ(bytes.front(), static_cast<std::byte>(i));
    EXPECT_EQ(bytes.back(), static_cast<std::byte>(i));
  }
}

TEST(BufferPoolAcquire, NeverTakesMoreMemoryThanTheCapacity) {
  BufferPool pool(11 * kBufferBytes);
  std::vector<Buffer> buffers;

  while (Buffer buffer = pool.try_acquire()) {
    buffers.push_back(std::move(buffer));
  }

  EXPECT_EQ(buffers.size(), 11U);
  EXPECT_EQ(pool.allocated_bytes(), 11 * kBufferBytes);
}

TEST(BufferPoolShare, HasOneBufferWhenOthersHoldAllThatThereAre) {
  std::size_t told_bytes = 0;
  BufferPool pool(kTwo, [&told_bytes](std::span<std::byte> memory) {
    told_bytes += memory.size();
    return std::make_shared<int>();
  });
  BufferPool other = pool.fair_share();
  const Buffer first = pool.try_acquire();
  const Buffer second = pool.try_acquire();

  Buffer own = other.try_acquire();

  ASSERT_TRUE(own);
  std::memset(own.bytes().data(), 1, own.bytes().size());
  EXPECT_EQ(told_bytes, 3 * kBufferBytes);
  EXPECT_FALSE(other.try_acquire());
  own.release();
  EXPECT_EQ(pool.leased_bytes(), kTwo);
  EXPECT_EQ(pool.allocated_bytes(), kTwo);
  EXPECT_TRUE(other.try_acquire());
}

TEST(BufferPoolShare, UsesThePoolAgainWhenOthersHaveGivenBack) {
  BufferPool pool(kTwo);
  BufferPool other = pool.fair_share();
  Buffer first = pool.try_acquire();
  const Buffer second = pool.try_acquire();
  const std::byte* memory = first.bytes().data();
  const Buffer beyond = other.try_acquire();

  first.release();

  EXPECT_FALSE(other.try_acquire());  // With the one beyond, all is in use.
  const BufferPool third = pool.fair_share();
  EXPECT_EQ(BufferPool(third).try_acquire().bytes().data(), memory);
}

TEST(BufferPoolAcquire, ReusesMemory) {
  BufferPool pool(kTwo);
  for (int i = 0; i < 100; ++i) {
    const Buffer first = run(pool.acquire());
    const Buffer second = run(pool.acquire());
  }

  EXPECT_EQ(pool.allocated_bytes(), kTwo);
  EXPECT_EQ(pool.leased_bytes(), 0U);
}

TEST(BufferPoolIdle, GivesMemoryBackWhenNoBufferIsInUse) {
  std::size_t held_bytes = 0;
  BufferPool pool(
      0,
      [&held_bytes](std::span<std::byte> memory) {
        held_bytes += memory.size();
        return std::shared_ptr<void>(nullptr,
                                     [&held_bytes, bytes = memory.size()](void*) { held_bytes -= bytes; });
      },
      kBufferBytes);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 30; ++i) {
    buffers.push_back(pool.try_acquire());
  }
  const std::size_t most = pool.allocated_bytes();

  buffers.resize(1);
  EXPECT_EQ(pool.allocated_bytes(), most);
  buffers.clear();

  EXPECT_GE(pool.allocated_bytes(), kBufferBytes);
  EXPECT_LE(pool.allocated_bytes(), most / 4);  // A piece of memory has several buffers.
  EXPECT_EQ(held_bytes, pool.allocated_bytes());
  EXPECT_TRUE(pool.try_acquire());
}

TEST(BufferPoolIdle, GivesAllBackWhereNothingIsToStay) {
  BufferPool pool(4 * kBufferBytes, {}, 0);
  for (int i = 0; i < 3; ++i) {
    Buffer first = pool.try_acquire();
    Buffer second = pool.try_acquire();
    std::memset(first.bytes().data(), i, first.bytes().size());
    first.release();
    EXPECT_GT(pool.allocated_bytes(), 0U);
    second.release();

    EXPECT_EQ(pool.allocated_bytes(), 0U);
    EXPECT_EQ(pool.leased_bytes(), 0U);
  }
}

TEST(BufferPoolIdle, KeepsWhatWasReserved) {
  BufferPool pool(8 * kBufferBytes, {}, 4 * kBufferBytes);
  pool.reserve(4 * kBufferBytes, 1);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 8; ++i) {
    buffers.push_back(pool.try_acquire());
  }

  buffers.clear();

  EXPECT_EQ(pool.allocated_bytes(), 4 * kBufferBytes);
}

TEST(BufferPoolAcquire, KnowsNoLimitWithACapacityOfZero) {
  BufferPool pool(0);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 30; ++i) {
    buffers.push_back(pool.try_acquire());
  }

  EXPECT_TRUE(buffers.back());
  EXPECT_GE(pool.allocated_bytes(), 30 * kBufferBytes);
}

TEST(BufferPoolAcquire, ServesInArrivalOrderWhenTheBudgetIsSpent) {
  async::ThreadPool threads(2, "test");
  BufferPool pool(kTwo);
  std::optional<Buffer> first = pool.try_acquire();
  const Buffer second = pool.try_acquire();
  std::vector<int> order;
  testing::TaskScope scope(async::make_strand(threads.executor()));
  for (int number = 0; number < 5; ++number) {
    scope.spawn(take_and_note(pool, number, &order));
  }
  const Buffer none = pool.try_acquire();

  first.reset();
  scope.wait();

  EXPECT_FALSE(none);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST(BufferPoolAcquire, LeavesThePoolAsItWasWhenCancelled) {
  async::ThreadPool threads(2, "test");
  BufferPool pool(kTwo);
  Buffer first = pool.try_acquire();
  Buffer second = pool.try_acquire();
  std::vector<int> order;
  testing::TaskScope scope(async::make_strand(threads.executor()));
  scope.spawn(take_and_note(pool, 0, &order));

  scope.cancel();
  scope.wait();
  first.release();
  second.release();

  EXPECT_TRUE(order.empty());
  EXPECT_EQ(pool.leased_bytes(), 0U);
}

/// Lets the process map `room_bytes` more than it has mapped, for as long as it lives.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(std::size_t room_bytes) {
    std::size_t mapped_pages = 0;
    std::ifstream("/proc/self/statm") >> mapped_pages;
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{mapped_pages * static_cast<std::size_t>(::getpagesize()) + room_bytes,
                       before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(BufferPoolAcquire, FailsWithEnomemAndLeasesNothingWhenTheSystemHasNoMemory) {
  BufferPool pool(8 * kBufferBytes);
  {
    const AddressSpaceLimit limit(4 * kBufferBytes);  // Room for a sanitizer's own needs, not for a slab.
    EXPECT_THAT([&] { (void)pool.try_acquire(); }, FailsWithErrno(ENOMEM, HasSubstr("mmap")));
  }

  EXPECT_EQ(pool.leased_bytes(), 0U);
  EXPECT_TRUE(pool.try_acquire());
}

TEST(BufferPoolReserve, TakesMemoryThatAcquireThenUses) {
  BufferPool pool(8 * kBufferBytes);
  pool.reserve(3 * kBufferBytes - 1, 3);
  EXPECT_EQ(pool.allocated_bytes(), 3 * kBufferBytes);

  std::vector<Buffer> buffers;
  for (int i = 0; i < 3; ++i) {
    buffers.push_back(pool.try_acquire());
  }

  EXPECT_EQ(pool.allocated_bytes(), 3 * kBufferBytes);
}

TEST(BufferPoolReserve, TakesTheCapacityAtMost) {
  BufferPool pool(kTwo);

  pool.reserve(SIZE_MAX, 0);

  EXPECT_EQ(pool.allocated_bytes(), kTwo);
}

TEST(BufferPoolReserve, DoesNothingWhenThatMuchIsThere) {
  BufferPool pool(kTwo);
  pool.reserve(kTwo, 1);

  pool.reserve(kBufferBytes, 1);

  EXPECT_EQ(pool.allocated_bytes(), kTwo);
}

TEST(BufferPoolReserve, FailsWithEnomemForMoreThanTheSystemHas) {
  BufferPool pool(0);

  EXPECT_THAT([&] { pool.reserve(SIZE_MAX / 2, 1); }, FailsWithErrno(ENOMEM, HasSubstr("mmap")));
}

TEST(Buffer, OutlivesItsPool) {
  std::optional<BufferPool> pool(kTwo);
  const Buffer buffer = pool->try_acquire();

  pool.reset();

  std::memset(buffer.bytes().data(), 1, kBufferBytes);
  EXPECT_THAT(buffer.bytes().first(16), Each(std::byte{1}));
}

TEST(Buffer, IsEmptyAfterReleaseAndMove) {
  BufferPool pool(kTwo);
  Buffer first = pool.try_acquire();
  Buffer second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): moved-from is empty.

  second.release();
  second.release();

  EXPECT_TRUE(second.bytes().empty());
  EXPECT_EQ(pool.leased_bytes(), 0U);
}

TEST(Buffer, GivesItsOldMemoryBackWhenAssignedTo) {
  BufferPool pool(kTwo);
  Buffer first = pool.try_acquire();
  Buffer second = pool.try_acquire();

  first = std::move(second);

  EXPECT_EQ(pool.leased_bytes(), kBufferBytes);
  EXPECT_TRUE(pool.try_acquire());
}

Awaitable<> fill_many(BufferPool pool, int number, bool* is_intact) {
  for (int i = 0; i < 50; ++i) {
    const Buffer buffer = co_await pool.acquire();
    std::memset(buffer.bytes().data(), number, 4096);
    co_await async::sleep_for(std::chrono::microseconds(10));
    for (const std::byte byte : buffer.bytes().first(4096)) {
      *is_intact = *is_intact && byte == static_cast<std::byte>(number);
    }
  }
}

TEST(BufferPoolStress, NeverSharesABufferBetweenThreads) {
  async::ThreadPool threads(4, "test");
  BufferPool pool(3 * kBufferBytes);
  std::vector<async::Event> ended;
  std::vector<std::unique_ptr<bool>> are_intact;
  for (int number = 0; number < 8; ++number) {
    are_intact.push_back(std::make_unique<bool>(true));
    ended.push_back(testing::start(async::make_strand(threads.executor()),
                                   fill_many(pool, number, are_intact.back().get())));
  }

  for (const async::Event& event : ended) {
    event.get();
  }

  for (const auto& is_intact : are_intact) {
    EXPECT_TRUE(*is_intact);
  }
  EXPECT_LE(pool.allocated_bytes(), 3 * kBufferBytes);
}

}  // namespace
}  // namespace cairn::staging
