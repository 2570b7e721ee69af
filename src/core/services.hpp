// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/core/context.hpp"

#include "async/internal/byte_budget.hpp"
#include "async/internal/event.hpp"
#include "async/internal/semaphore.hpp"
#include "async/internal/thread_pool.hpp"
#include "async/internal/timers.hpp"
#include "base/internal/kept_memory.hpp"
#include "core/save_queue.hpp"
#include "io/internal/engine.hpp"
#include "observe/internal/metrics.hpp"
#include "staging/internal/buffer_pool.hpp"
#include "staging/internal/file_budget.hpp"

namespace cairn::core {

class Operation;

/// What a Context owns, shared with its operations: the last of them to end may outlive the context.
class Services {
 public:
  explicit Services(ContextOptions options);

  /// Makes services whose destruction never happens on one of their own threads.
  static std::shared_ptr<Services> create(ContextOptions options);

  /// Whether this is the process that made them: in one that was forked from it, their threads do not run.
  [[nodiscard]] bool is_own_process() const noexcept;
  /// Errors: Errc::closed when it is not.
  void require_own_process() const;

  /// Enters an operation that has begun.
  ///
  /// Errors: Errc::closed after close().
  void enter(const std::shared_ptr<Operation>& operation);
  void leave(const Operation* operation);

  /// Whether the calling thread is one of those below.
  [[nodiscard]] bool runs_this_thread() const noexcept;

  /// The copier of a device, or null.
  [[nodiscard]] DeviceCopier* copier(Device device) const noexcept;

  /// Keeps the failure of an operation that nobody waited for.
  void lose(const std::string& path, const std::exception_ptr& failure);

  /// Refuses new operations, waits for those in flight, stops those that take too long; those that do not end then are left
  /// behind after the grace, and keep these services alive. Returns the first lost failure; when there is none, what still
  /// runs; else null. Does nothing in a process that was forked.
  std::exception_ptr close();

  async::Event gone;  ///< Happens when these services are destroyed.
  ContextOptions options;
  io::EngineChoice choice;
  Coordinator& coordinator;
  const Clock& clock;
  observe::Metrics metrics;
  std::shared_ptr<std::atomic<bool>>
      has_unpinned;  ///< Staging memory that a copier could not pin; pools outlive us.
  staging::BufferPool buffers;
  async::ByteBudget scratch;          ///< Of loads: for small runs, which would waste most of a buffer.
  std::shared_ptr<KeptMemory> plans;  ///< Memory for what handlers plan.
  async::Semaphore transfers;         ///< One permit for each request in flight.
  async::Semaphore gathers;           ///< One permit for each borrowed run that is in a staging buffer.
  staging::FileBudget files;
  SaveQueue saves;
  std::unique_ptr<io::Engine> engine;
  // Pools that grow do so while all of their threads are blocked, so that nobody waits for a stranger's disk or handler.
  async::ThreadPool
      workers;              ///< Copies, and hashes of loads and of saves until `staged`: nothing that blocks.
  async::ThreadPool calls;  ///< System calls that block, and code of handlers. Grows.
  async::ThreadPool
      background;  ///< Hashes, and code of handlers, once the caller is gone: gives way to him. Grows.
  async::ThreadPool coroutines;  ///< Where operations run, each on a strand. Grows.
  async::Timers timers;          ///< Deadlines. First to stop: it is last here.

 private:
  const pid_t process_;
  std::mutex mutex_;  // Protects all below.
  bool is_closed_ = false;
  std::vector<std::shared_ptr<Operation>> operations_;
  std::exception_ptr lost_;
};

/// What a context keeps to itself.
struct ContextServices {
  static const std::shared_ptr<Services>& of(const Context& context) noexcept { return context.services_; }
};

[[nodiscard]] inline const std::shared_ptr<Services>& services_of(const Context& context) noexcept {
  return ContextServices::of(context);
}

}  // namespace cairn::core
