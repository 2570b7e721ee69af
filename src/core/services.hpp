// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "cairn/coord/coordinator.hpp"
#include "cairn/core/context.hpp"

#include "async/internal/event.hpp"
#include "async/internal/semaphore.hpp"
#include "base/internal/kept_memory.hpp"
#include "contract/internal/devices.hpp"
#include "contract/internal/kept_values.hpp"
#include "core/operation_registry.hpp"
#include "core/save_queue.hpp"
#include "core/threads.hpp"
#include "io/internal/engine.hpp"
#include "observe/internal/metrics.hpp"
#include "staging/internal/buffer_pool.hpp"
#include "staging/internal/file_budget.hpp"
#include "store/internal/store.hpp"

namespace cairn::core {

/// The host memory that the operations of a context share.
struct Memory {
  /// Shared by as many processes as there are ranks on this machine.
  Memory(const ContextOptions& options, staging::MemoryHook pin, std::size_t ranks);

  staging::BufferPool buffers;
  async::Semaphore scratch;           ///< Of loads: for small runs, which would waste most of a buffer.
  std::shared_ptr<KeptMemory> plans;  ///< For what handlers plan.
};

/// How the operations of a context reach the disk, and how much each of them may ask for at once.
struct Disk {
  explicit Disk(const ContextOptions& options);

  [[nodiscard]] io::Engine& engine() const noexcept { return *choice.engine; }

  io::EngineChoice choice;
  const std::size_t queue_depth;  ///< Requests in flight of one operation.
  staging::FileBudget files;
};

/// Everything that a Context owns. Its operations share it: the last of them to end may outlive the context.
class Services {
 public:
  explicit Services(ContextOptions options);

  /// Makes services whose destruction never happens on one of their own threads.
  static std::shared_ptr<Services> create(ContextOptions options);

  /// Returns whether this is the process that made them: in one that was forked from it, their threads do not
  /// run.
  [[nodiscard]] bool is_own_process() const noexcept;
  /// Errors: Errc::closed when it is not.
  void require_own_process() const;

  /// Returns where checkpoints are.
  [[nodiscard]] const store::Store& checkpoint_store() const noexcept {
    return options.checkpoint_store ? *options.checkpoint_store : store::directory_store();
  }

  const async::Event gone;  ///< Happens when these services are destroyed.
  const ContextOptions options;
  coord::Coordinator& coordinator;
  const Clock& clock;
  observe::Metrics metrics;
  const contract::Devices devices;
  Memory memory;
  Disk disk;
  SaveQueue saves;
  OperationRegistry operations;
  contract::KeptValues kept;  ///< By handlers, for their next save.
  Threads threads;            ///< First to stop: they are last here.

 private:
  const pid_t process_;
};

/// Gives the library the services of a context, which users cannot reach.
struct ContextServices {
  static std::shared_ptr<Services> of(const Context& context) noexcept { return context.services_; }
  static Context shared(const Context& context) noexcept { return Context(context); }
};

/// By value: exit() on another thread may destroy a static context while a call waits.
[[nodiscard]] inline std::shared_ptr<Services> services_of(const Context& context) noexcept {
  return ContextServices::of(context);
}

}  // namespace cairn::core
