// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/buffer_pool.hpp"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/internal/aligned_memory.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/checked.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/parallel_for.hpp"
#include "base/internal/probe.hpp"

namespace cairn::staging {
namespace {

/// Memory is taken from the system in pieces of this size, so that few mappings hold many buffers.
constexpr std::size_t kSlabBytes = 8 * kBufferBytes;

std::size_t whole_buffers(std::size_t capacity_bytes) {
  if (capacity_bytes == 0) {
    return 0;
  }
  return std::max(capacity_bytes / kBufferBytes, std::size_t{2}) * kBufferBytes;
}

void touch_in_parallel(std::span<std::byte> bytes, std::size_t threads) {
  const std::size_t shares = std::max<std::size_t>(threads, 1);
  const std::size_t share = (bytes.size() + shares - 1) / shares;
  parallel_for(shares, shares, [&](std::size_t i) {
    const auto piece = bytes.subspan(std::min(i * share, bytes.size()));
    touch(piece.data(), std::min(share, piece.size()));
  });
}

}  // namespace

struct BufferPool::Memory {
  Memory(MemoryHook hook, std::size_t idle) : on_memory(std::move(hook)), idle_bytes(idle) {}

  Mutex mutex;
  const MemoryHook on_memory;
  const std::size_t idle_bytes;
  std::vector<AlignedMemory> slabs CAIRN_GUARDED_BY(mutex);
  // What the hook returned; goes before the slabs.
  std::vector<std::shared_ptr<void>> holds CAIRN_GUARDED_BY(mutex);
  std::vector<std::byte*> free CAIRN_GUARDED_BY(mutex);
  std::size_t allocated_bytes CAIRN_GUARDED_BY(mutex) = 0;

  void add_slab(AlignedMemory slab) CAIRN_REQUIRES(mutex) {
    CAIRN_ASSERT(slab.size() % kBufferBytes == 0, "a pool takes memory for whole buffers");
    // Room for all buffers there are, so that none is ever given back in vain.
    free.reserve((allocated_bytes + slab.size()) / kBufferBytes);
    slabs.reserve(slabs.size() + 1);
    if (on_memory) {
      holds.push_back(on_memory(slab.bytes()));
    }
    // Backwards, so that buffers are handed out in the order of their addresses.
    for (std::size_t end = slab.size(); end >= kBufferBytes; end -= kBufferBytes) {
      free.push_back(slab.data() + end - kBufferBytes);
    }
    allocated_bytes += slab.size();
    slabs.push_back(std::move(slab));
    CAIRN_ASSERT(free.size() <= allocated_bytes / kBufferBytes, "no more buffers are free than there are");
  }

  /// Null when all memory up to the capacity is in use.
  std::byte* take(std::size_t capacity_bytes) {
    const MutexLock lock(mutex);
    if (free.empty()) {
      CAIRN_ASSERT(capacity_bytes == 0 || allocated_bytes <= capacity_bytes,
                   "a pool takes no more memory than its capacity");
      const std::size_t room = capacity_bytes == 0 ? kSlabBytes : capacity_bytes - allocated_bytes;
      if (room == 0) {
        CAIRN_PROBE("staging.buffer_beyond_the_capacity");
        return nullptr;
      }
      add_slab(AlignedMemory(std::min(kSlabBytes, room)));
    }
    std::byte* data = free.back();
    free.pop_back();
    return data;
  }

  void give_back(std::byte* data) {
    const MutexLock lock(mutex);
    CAIRN_ASSERT(data != nullptr && free.size() < free.capacity(),
                 "there is room for each buffer that comes back");
    free.push_back(data);
    if (free.size() * kBufferBytes == allocated_bytes && allocated_bytes > idle_bytes) {
      trim();
    }
  }

  /// Gives memory back to the system, the newest first. No buffer is in use, so nobody waits for the lock but who would
  /// take this memory again.
  void trim() CAIRN_REQUIRES(mutex) {
    CAIRN_PROBE("staging.memory_given_back");
    while (!slabs.empty() && allocated_bytes - slabs.back().size() >= idle_bytes) {
      const std::span<const std::byte> slab = slabs.back().bytes();
      std::erase_if(free, [&](const std::byte* data) {
        return !std::less<>()(data, slab.data()) && std::less<>()(data, slab.data() + slab.size());
      });
      allocated_bytes -= slab.size();
      if (on_memory) {
        holds.pop_back();
      }
      slabs.pop_back();
    }
    CAIRN_ASSERT(free.size() * kBufferBytes == allocated_bytes, "all buffers that are left are free");
  }
};

/// Memory beyond the capacity, for a share that holds nothing: goes with its buffer.
struct Buffer::Beyond {
  explicit Beyond(const MemoryHook& on_memory)
      : memory(kBufferBytes), hold(on_memory ? on_memory(memory.bytes()) : nullptr) {}

  AlignedMemory memory;
  std::shared_ptr<void> hold;  // Of the memory: goes before it.
};

BufferPool::BufferPool(std::size_t capacity_bytes, MemoryHook on_memory, std::size_t idle_bytes)
    : memory_(std::make_shared<Memory>(std::move(on_memory), idle_bytes)),
      budget_(whole_buffers(capacity_bytes)) {}

void BufferPool::reserve(std::size_t bytes, std::size_t threads) {
  if (budget_.capacity() != 0) {
    bytes = std::min(bytes, budget_.capacity());
  }
  const std::size_t wanted = round_up(bytes, kBufferBytes);
  const MutexLock lock(memory_->mutex);
  if (wanted <= memory_->allocated_bytes) {
    return;
  }
  CAIRN_ASSERT(wanted % kBufferBytes == 0, "buffers are reserved whole");
  AlignedMemory slab(wanted - memory_->allocated_bytes);
  touch_in_parallel(slab.bytes(), threads);
  memory_->add_slab(std::move(slab));
}

BufferPool::BufferPool(std::shared_ptr<Memory> memory, async::Semaphore budget) noexcept
    : memory_(std::move(memory)), budget_(std::move(budget)) {}

BufferPool BufferPool::fair_share() const {
  return {memory_, budget_.fair_share()};
}

Awaitable<Buffer> BufferPool::acquire() {
  return acquire(memory_, budget_);
}

Awaitable<Buffer> BufferPool::acquire(std::shared_ptr<Memory> memory, async::Semaphore budget) {
  async::Permit lease = co_await budget.acquire(kBufferBytes);
  Buffer buffer(memory, std::move(lease));
  buffer.take(budget.capacity());
  co_return buffer;
}

Buffer BufferPool::try_acquire() {
  async::Permit lease = budget_.try_acquire(kBufferBytes);
  if (!lease) {
    return {};
  }
  Buffer buffer(memory_, std::move(lease));
  buffer.take(budget_.capacity());
  return buffer;
}

std::size_t BufferPool::capacity_bytes() const noexcept {
  return budget_.capacity();
}

std::size_t BufferPool::leased_bytes() const {
  return budget_.taken();
}

std::size_t BufferPool::allocated_bytes() const {
  const MutexLock lock(memory_->mutex);
  return memory_->allocated_bytes;
}

Buffer::Buffer(std::shared_ptr<BufferPool::Memory> memory, async::Permit lease)
    : memory_(std::move(memory)), lease_(std::move(lease)) {}

Buffer::Buffer() = default;

Buffer::~Buffer() {
  release();
}

void Buffer::take(std::size_t capacity_bytes) {
  CAIRN_ASSERT(data_ == nullptr && memory_ != nullptr, "a buffer takes memory once");
  data_ = memory_->take(capacity_bytes);
  if (data_ == nullptr) {
    beyond_ = std::make_unique<Beyond>(memory_->on_memory);
    data_ = beyond_->memory.data();
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(std::move(other.memory_)),
      lease_(std::move(other.lease_)),
      beyond_(std::move(other.beyond_)),
      data_(std::exchange(other.data_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    memory_ = std::move(other.memory_);
    lease_ = std::move(other.lease_);
    beyond_ = std::move(other.beyond_);
    data_ = std::exchange(other.data_, nullptr);
  }
  return *this;
}

std::span<std::byte> Buffer::bytes() const noexcept {
  return {data_, data_ == nullptr ? 0 : kBufferBytes};
}

void Buffer::release() noexcept {
  std::byte* data = std::exchange(data_, nullptr);
  if (data != nullptr && !beyond_) {
    memory_->give_back(data);  // Before the lease: its next holder must find the buffer.
  }
  beyond_.reset();
  lease_.release();
  memory_.reset();
}

}  // namespace cairn::staging
