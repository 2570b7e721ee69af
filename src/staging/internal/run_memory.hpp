// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cairn/async/awaitable.hpp"

#include "staging/internal/buffer_pool.hpp"

namespace cairn::staging {

/// What files that are smaller than a buffer get of one: as many of these as they need.
inline constexpr std::size_t kSlotBytes = std::size_t{64} << 10;

/// Where a run is while it is on its way to a file: in a buffer, or in slots of buffers that several small files share;
/// or where the file itself lies, in memory.
///
/// Threads: a value; moving from it leaves it empty.
class RunMemory {
 public:
  RunMemory();
  explicit RunMemory(Buffer whole);
  /// Memory that somebody else keeps.
  explicit RunMemory(std::span<std::byte> kept);
  ~RunMemory();
  RunMemory(RunMemory&& other) noexcept;
  RunMemory& operator=(RunMemory&& other) noexcept;

  explicit operator bool() const noexcept { return !parts_.empty(); }
  /// In the order of the run's bytes: one, but where free slots do not lie side by side.
  [[nodiscard]] std::span<const std::span<std::byte>> parts() const noexcept { return parts_; }
  void release() noexcept;

 private:
  friend class SharedBuffers;
  struct Block;
  struct Slots;
  struct Pool;

  Buffer whole_;
  std::shared_ptr<Pool> pool_;  // Where the slots are from.
  std::vector<Slots> slots_;
  std::vector<std::span<std::byte>> parts_;
};

/// The buffers that the small files of one operation share, so that a thousand of them need no thousand buffers. A
/// buffer is taken from the operation's share of the pool only when fewer slots are free than are asked for, and is
/// given back as soon as none of it is in use.
///
/// Threads: every method may be called from any thread. Copies are the same buffers.
class SharedBuffers {
 public:
  explicit SharedBuffers(BufferPool pool);

  /// Returns whether a run of `bytes` gets slots; else it gets a buffer of its own.
  [[nodiscard]] static bool serves(std::size_t bytes) noexcept { return bytes <= kBufferBytes - kSlotBytes; }

  /// Waits for slots for a run of `bytes`, not 0, which it serves.
  ///
  /// Cancel: leaves everything as it was.
  /// Errors: as BufferPool::acquire.
  [[nodiscard]] Awaitable<RunMemory> acquire(std::size_t bytes);

  /// The same where there is no need to wait; else nothing.
  [[nodiscard]] RunMemory try_acquire(std::size_t bytes);

 private:
  static Awaitable<RunMemory> acquire(std::shared_ptr<RunMemory::Pool> pool, std::size_t bytes);
  static RunMemory take(const std::shared_ptr<RunMemory::Pool>& pool, std::size_t bytes);

  std::shared_ptr<RunMemory::Pool> pool_;
};

}  // namespace cairn::staging
