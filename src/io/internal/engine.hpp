// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/io/engine_kind.hpp"

#include "io/internal/syscalls.hpp"

namespace cairn::io {

enum class Operation : std::uint8_t { read, write, sync_data };

struct EngineShare;

/// One transfer between memory and a file, linked into the engine's queues without allocation.
///
/// Ownership: the request, its memory and its descriptor must stay valid until `done` was called;
/// in
///            `done` they are the caller's again (the request may be submitted anew, or destroyed).
struct Request {
  Operation operation = Operation::read;
  int fd = -1;
  std::byte* data = nullptr;  ///< Only read from when the operation is a write.
  std::size_t size = 0;
  std::uint64_t offset = 0;
  /// The descriptor has O_DIRECT: io_uring runs these in its ring, and the rest on threads, because a ring
  /// works on the page cache one request after the other.
  bool is_direct = false;
  /// Called once, on a thread of the engine, with the bytes moved (may be fewer than `size`) or
  /// -errno. Must be brief, and may call `submit`.
  void (*done)(Request& request, std::int64_t result) noexcept = nullptr;
  /// The operation's share of the engine. Null: requests of no operation have one together.
  EngineShare* share = nullptr;
  Request* next = nullptr;  ///< The engine's.
};

/// Runs reads, writes and syncs of open files, many at a time, in no order.
///
/// The results are the kernel's own: nothing is retried and nothing completed here; `transfer.hpp` does that. The
/// destructor waits for every request in flight, because the kernel owns their memory.
/// Threads: every method may be called from any thread.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// "io_uring" or "threads": what results and logs report.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// Why requests have taken another way than the engine was made for; empty when they have not.
  [[nodiscard]] virtual std::string trouble() const { return {}; }

  /// Starts `request`, or keeps it until there is room. Never blocks, never fails: `done` gets the
  /// error.
  virtual void submit(Request& request) noexcept = 0;

  /// The operations that are not transfers: opening, renaming, syncing directories.
  [[nodiscard]] virtual Syscalls& syscalls() noexcept = 0;
};

struct EngineOptions {
  EngineOptions() = default;  // Not an aggregate, so that a temporary may be passed in a coroutine.

  /// Most requests that the kernel holds at once (io_uring). More adds latency, not bandwidth. A request that
  /// finds the ring full of requests of other operations, which may never come back, is done by threads
  /// instead.
  std::uint32_t queue_depth = 64;
  /// Threads that read and write for one share (the thread engine); each holds one request.
  std::uint32_t threads = 4;
  /// File operations go through these system calls; null means `posix_syscalls()`. Transfers of io_uring do
  /// not pass through it.
  Syscalls* syscalls = nullptr;
};

struct EngineChoice {
  std::unique_ptr<Engine> engine;
  /// Why `automatic` passed io_uring over; empty when it did not.
  std::string reason;
};

/// Builds an engine. `automatic` takes io_uring where the kernel offers it and threads otherwise.
///
/// Errors: with `uring`, what the kernel answers (EPERM in many containers), or ENOSYS when Cairn was built without it;
///         EAGAIN when no thread can be started.
EngineChoice make_engine(EngineKind kind, EngineOptions options = {});

}  // namespace cairn::io
