// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <span>

#include "cairn/async/awaitable.hpp"

#include "async/internal/semaphore.hpp"
#include "io/internal/memory_hook.hpp"

namespace cairn::staging {

/// The unit in which files are staged, written and read: large enough for one request to keep a disk busy.
inline constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

class Buffer;

using io::MemoryHook;

/// Page-aligned host memory for bytes on their way between arrays and files, reused by every save and load.
///
/// Memory is taken from the system when it is first needed and kept until the pool goes, or down to `idle_bytes` as
/// soon as no buffer is in use. It is never more than the capacity, but for one buffer of each share that holds nothing
/// when all others are in use: that one goes when it is given back. Who waits for a buffer is served in arrival order.
/// Threads: every method may be called from any thread. Buffers may outlive the pool.
class BufferPool {
 public:
  /// `capacity_bytes` is rounded down to whole buffers, but is two of them at least. 0 means no limit.
  /// `idle_bytes` are what stays while no buffer is in use, rounded up to the pieces in which memory was taken.
  explicit BufferPool(std::size_t capacity_bytes, MemoryHook on_memory = {},
                      std::size_t idle_bytes = std::numeric_limits<std::size_t>::max());

  /// Another share of the same pool, for an operation that must not have to wait for what others hold.
  [[nodiscard]] BufferPool fair_share() const;

  /// Takes memory for `bytes` (at most the capacity) from the system now and touches its pages with
  /// `threads` threads, so that the first save is not slower than the tenth.
  void reserve(std::size_t bytes, std::size_t threads);

  /// Waits for a free buffer of `kBufferBytes`.
  ///
  /// Cancel: leaves the pool unchanged.
  /// Errors: ENOMEM when the system has none left.
  [[nodiscard]] Awaitable<Buffer> acquire();

  /// A free buffer, or an empty one when the caller would have to wait.
  [[nodiscard]] Buffer try_acquire();

  [[nodiscard]] std::size_t capacity_bytes() const noexcept;
  [[nodiscard]] std::size_t leased_bytes() const;
  /// Memory taken from the system and not given back, up to the capacity.
  [[nodiscard]] std::size_t allocated_bytes() const;

 private:
  friend class Buffer;
  struct Memory;

  BufferPool(std::shared_ptr<Memory> memory, async::Semaphore budget) noexcept;

  static Awaitable<Buffer> acquire(std::shared_ptr<Memory> memory, async::Semaphore budget);

  std::shared_ptr<Memory> memory_;
  async::Semaphore budget_;
};

/// `kBufferBytes` of memory, given back to its pool when it goes away.
class Buffer {
 public:
  Buffer();
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  explicit operator bool() const noexcept { return data_ != nullptr; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept;
  void release() noexcept;

 private:
  friend class BufferPool;
  struct Beyond;

  Buffer(std::shared_ptr<BufferPool::Memory> memory, async::Permit lease);

  /// Memory of the pool's, or beyond it when there is none.
  void take(std::size_t capacity_bytes);

  std::shared_ptr<BufferPool::Memory> memory_;
  async::Permit lease_;
  std::unique_ptr<Beyond> beyond_;
  std::byte* data_ = nullptr;
};

}  // namespace cairn::staging
