// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "cairn/async/awaitable.hpp"

#include "async/internal/event.hpp"
#include "async/internal/gate.hpp"
#include "async/internal/limited_pool.hpp"
#include "async/internal/semaphore.hpp"
#include "async/internal/task_group.hpp"
#include "async/internal/thread_pool.hpp"
#include "io/internal/engine.hpp"
#include "observe/internal/meter.hpp"
#include "staging/internal/buffer_pool.hpp"
#include "staging/internal/file_budget.hpp"
#include "staging/internal/run_memory.hpp"

namespace cairn::staging {

/// Everything that the files of one operation are written and read with: its fair shares of the threads,
/// memory and limits of a context, and what is its own. Work that never ends keeps those shares, and nothing
/// of other operations.
///
/// Threads: everything here may be used from any thread.
struct DataPlane {
  io::Engine& engine;
  observe::Meter& meter;
  async::LimitedPool workers;           ///< Copy and hash, and read what is in the page cache.
  async::LimitedPool calls;             ///< For system calls that block.
  async::LimitedPool background;        ///< Hash, where that yields to the program.
  async::LimitedPool users;             ///< For code of handlers: it may wait for what the others do.
  async::LimitedPool users_background;  ///< Likewise, where it yields.
  BufferPool buffers;
  async::Semaphore scratch;    ///< Memory for small runs of reads, which would waste most of a buffer.
  async::Semaphore transfers;  ///< One permit for each request in flight.
  async::Semaphore gathers;    ///< One permit for each borrowed run that is in a buffer.
  FileBudget files;
  Executor strand;  ///< Of coroutines that move bytes: no code of a handler blocks it.
  std::shared_ptr<async::TaskGroup>
      helpers;                    ///< The operation's tasks concurrent with its main work, on that strand.
  SharedBuffers shared{buffers};  ///< Of small files.
  MemoryHook pin{};               ///< Of memory that devices copy into; null where one refuses.

  async::Event prepared{};        ///< The blocking phase is over.
  async::Gate blocking_gate{};    ///< Around the caller's memory until then,
  async::Gate background_gate{};  ///< and from then on.
  bool yields = false;            ///< Computing has a lower priority once the caller has gone on.
  bool copies_yield = false;      ///< The caller has gone on from the start.
  /// Destroys what may take its time over it, on a thread that may. Empty: here and now.
  std::function<void(std::shared_ptr<void>)> destroy_later{};

  std::atomic<std::uint64_t> staged_bytes{0};
  std::atomic<std::uint64_t> written_bytes{0};
  std::atomic<std::uint64_t> wanted_bytes{0};  ///< To be read; grows while files are asked for.
  std::atomic<std::uint64_t> loaded_bytes{0};  ///< Of those: read, verified, in their place.
  std::atomic<std::uint64_t> read_bytes{0};
  std::atomic<std::uint64_t> cached_bytes{0};  ///< Of those that were read: copied from the page cache.

  /// Runs what computes (hashes, copies of our own) on a worker thread.
  [[nodiscard]] Awaitable<> run(std::function<void()> work) const;
  /// As `run`, for work of the blocking phase that reads the caller's memory.
  [[nodiscard]] Awaitable<> run_on_borrowed(std::function<void()> work) const;
  /// Runs system calls that may block, on threads that nobody else waits for.
  [[nodiscard]] Awaitable<> run_call(std::function<void()> work) const;
  /// Runs code of a handler, which may compute or block; it visits the gate of the phase that runs.
  ///
  /// Errors: as `touch_memory`.
  [[nodiscard]] Awaitable<> run_users(std::function<void()> work) const;

  /// Returns whether the calling thread runs something that was given to `run_call` or `run_users`.
  [[nodiscard]] bool runs_this_thread() const noexcept;

  /// To be held while memory that may be the caller's is touched: a visit of the gate of the phase that runs.
  ///
  /// Errors: Errc::cancelled when the memory is the caller's again.
  [[nodiscard]] async::Gate::Visit touch_memory() const;
  /// The same for memory that its owner has promised to keep unchanged to the end, whatever phase runs: who works
  /// across the end of the blocking phase finds its gate closed a moment before he is told.
  [[nodiscard]] async::Gate::Visit touch_promised_memory() const;

  /// Waits for a staging buffer, and measures that. The plane outlives the wait.
  [[nodiscard]] Awaitable<Buffer> acquire_buffer();
  /// A staging buffer when one is free, else an empty one.
  [[nodiscard]] Buffer try_acquire_buffer();
  /// As these two, memory for a run of `bytes`, not 0: a buffer of its own, or of what is smaller a part of one.
  [[nodiscard]] Awaitable<RunMemory> acquire_run(std::size_t bytes);
  [[nodiscard]] RunMemory try_acquire_run(std::size_t bytes);

  /// How many coroutines share the runs of one file: two for each request that may be in flight. Disks answer many
  /// requests at once, and the next ones must be there while those are verified or hashed.
  [[nodiscard]] std::size_t sharers() const noexcept { return 2 * transfers.capacity(); }

  /// Destroys `thing` on a thread that may block: to close a file may take as long as the disk likes, and the last
  /// reference is often dropped by a thread that must not wait for that.
  template <class T>
  void drop_later(T thing) const noexcept {
    if (destroy_later) {
      destroy_later(std::make_shared<T>(std::move(thing)));
    }
  }
};

}  // namespace cairn::staging
