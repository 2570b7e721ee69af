// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/run_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <list>
#include <optional>
#include <utility>

#include "async/internal/semaphore.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/checked.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"

namespace cairn::staging {
namespace {

static_assert(kBufferBytes / kSlotBytes == 64, "a bit for each slot of a buffer");

constexpr std::uint64_t kAll = ~std::uint64_t{0};

/// Returns the bits of `count` slots, from `first` on; not 0.
std::uint64_t bits_of(unsigned first, unsigned count) {
  CAIRN_ASSERT(count > 0 && first + count <= 64, "slots lie within one buffer");
  return (kAll >> (64 - count)) << first;
}

/// The first of `count` slots side by side that are not used.
std::optional<unsigned> find_free(std::uint64_t used, unsigned count) {
  std::uint64_t firsts = ~used;
  for (unsigned i = 1; i < count; ++i) {
    firsts &= ~used >> i;
  }
  if (firsts == 0) {
    return std::nullopt;
  }
  return static_cast<unsigned>(std::countr_zero(firsts));
}

}  // namespace

/// A buffer that is divided into slots.
struct RunMemory::Block {
  explicit Block(Buffer memory) : buffer(std::move(memory)) {}

  Buffer buffer;
  std::uint64_t used = 0;  // A bit for each slot.
};

/// Some of a buffer, side by side.
struct RunMemory::Slots {
  std::list<Block>::iterator block;
  unsigned first = 0;
  unsigned count = 0;

  [[nodiscard]] std::span<std::byte> bytes() const {
    return block->buffer.bytes().subspan(first * kSlotBytes, count * kSlotBytes);
  }
};

struct RunMemory::Pool {
  using Blocks = std::list<Block>;

  explicit Pool(BufferPool from) : buffers(std::move(from)) {}

  /// Free slots, as few ranges as possible; none when fewer than `count` are free.
  [[nodiscard]] std::vector<Slots> find(unsigned count) CAIRN_REQUIRES(mutex);
  void mark(const Slots& slots) noexcept CAIRN_REQUIRES(mutex);
  void add(Buffer buffer);
  void give_back(std::span<const Slots> slots) noexcept;

  BufferPool buffers;
  async::Semaphore turn{1};  // Of who waits for another buffer: the others find slots in it.
  Mutex mutex;
  Blocks open CAIRN_GUARDED_BY(mutex);  // Have free slots.
  Blocks full CAIRN_GUARDED_BY(mutex);
};

std::vector<RunMemory::Slots> RunMemory::Pool::find(unsigned count) {
  for (auto block = open.begin(); block != open.end(); ++block) {
    if (const std::optional<unsigned> first = find_free(block->used, count)) {
      return {{block, *first, count}};
    }
  }
  std::vector<Slots> found;
  for (auto block = open.begin(); block != open.end(); ++block) {
    std::uint64_t used = block->used;
    while (used != kAll && count != 0) {
      const auto first = static_cast<unsigned>(std::countr_one(used));
      const auto range =
          static_cast<unsigned>(std::countr_zero(used >> first));  // 64 where all of the rest is free.
      const Slots& slots = found.emplace_back(Slots{block, first, std::min({range, 64 - first, count})});
      used |= bits_of(slots.first, slots.count);
      count -= slots.count;
    }
  }
  return count == 0 ? found : std::vector<Slots>();
}

void RunMemory::Pool::mark(const Slots& slots) noexcept {
  CAIRN_ASSERT((slots.block->used & bits_of(slots.first, slots.count)) == 0, "a slot has one user");
  slots.block->used |= bits_of(slots.first, slots.count);
  if (slots.block->used == kAll) {
    full.splice(full.end(), open, slots.block);
  }
}

void RunMemory::Pool::add(Buffer buffer) {
  Blocks one;
  one.emplace_back(std::move(buffer));
  const MutexLock lock(mutex);
  open.splice(open.end(), one);
}

void RunMemory::Pool::give_back(std::span<const Slots> slots) noexcept {
  Blocks unused;  // Go without the lock: that resumes who waits for a buffer.
  const MutexLock lock(mutex);
  for (const Slots& each : slots) {
    CAIRN_ASSERT((each.block->used & bits_of(each.first, each.count)) == bits_of(each.first, each.count),
                 "a slot that comes back was taken");
    if (each.block->used == kAll) {
      open.splice(open.end(), full, each.block);
    }
    each.block->used &= ~bits_of(each.first, each.count);
    if (each.block->used == 0) {
      unused.splice(unused.end(), open, each.block);
    }
  }
}

RunMemory::RunMemory() = default;

RunMemory::~RunMemory() {
  release();
}

RunMemory::RunMemory(std::span<std::byte> kept) : parts_(1, kept) {}

RunMemory::RunMemory(Buffer whole) : whole_(std::move(whole)), parts_(1, whole_.bytes()) {}

RunMemory::RunMemory(RunMemory&& other) noexcept
    : whole_(std::move(other.whole_)),
      pool_(std::move(other.pool_)),
      slots_(std::exchange(other.slots_, {})),
      parts_(std::exchange(other.parts_, {})) {}

RunMemory& RunMemory::operator=(RunMemory&& other) noexcept {
  if (this != &other) {
    release();
    whole_ = std::move(other.whole_);
    pool_ = std::move(other.pool_);
    slots_ = std::exchange(other.slots_, {});
    parts_ = std::exchange(other.parts_, {});
  }
  return *this;
}

void RunMemory::release() noexcept {
  parts_.clear();
  whole_.release();
  if (const std::shared_ptr<Pool> pool = std::exchange(pool_, nullptr)) {
    pool->give_back(slots_);
  }
  slots_.clear();
}

SharedBuffers::SharedBuffers(BufferPool pool) : pool_(std::make_shared<RunMemory::Pool>(std::move(pool))) {}

RunMemory SharedBuffers::take(const std::shared_ptr<RunMemory::Pool>& pool, std::size_t bytes) {
  RunMemory memory;
  CAIRN_ASSERT(bytes > 0 && bytes <= kBufferBytes, "a run that shares a buffer is no larger than one");
  const MutexLock lock(pool->mutex);
  memory.slots_ = pool->find(static_cast<unsigned>(round_up(bytes, kSlotBytes) / kSlotBytes));
  memory.parts_.reserve(memory.slots_.size());
  for (const RunMemory::Slots& slots : memory.slots_) {
    memory.parts_.push_back(slots.bytes());
    pool->mark(slots);
  }
  memory.pool_ = pool;
  return memory;
}

RunMemory SharedBuffers::try_acquire(std::size_t bytes) {
  RunMemory memory = take(pool_, bytes);
  if (!memory) {
    if (Buffer buffer = pool_->buffers.try_acquire()) {
      pool_->add(std::move(buffer));
      memory = take(pool_, bytes);
    }
  }
  return memory;
}

Awaitable<RunMemory> SharedBuffers::acquire(std::size_t bytes) {
  return acquire(pool_, bytes);
}

Awaitable<RunMemory> SharedBuffers::acquire(std::shared_ptr<RunMemory::Pool> pool, std::size_t bytes) {
  const async::Permit turn = co_await pool->turn.acquire();
  RunMemory memory = take(pool, bytes);
  while (!memory) {  // Again where another thread was quicker.
    CAIRN_PROBE("staging.waits_for_slots");
    Buffer buffer = co_await pool->buffers.acquire();
    pool->add(std::move(buffer));
    memory = take(pool, bytes);
  }
  co_return memory;
}

}  // namespace cairn::staging
