// SPDX-License-Identifier: Apache-2.0
#include "core/services.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "cairn/base/error.hpp"

#include "core/operation.hpp"

namespace cairn::core {
namespace {

constexpr std::size_t kCoroutineThreads = 2;

/// Enough for the plans of 500,000 arrays; larger ones are given back in part.
constexpr std::size_t kMostPlanBytes = std::size_t{64} << 20;

/// How long a cancelled operation may take to end before its context goes without it.
constexpr std::chrono::seconds kCancelGrace{5};

std::size_t half_of_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

std::size_t worker_threads(const ContextOptions& options) {
  return options.worker_threads != 0 ? options.worker_threads
                                     : std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
}

io::EngineOptions engine_options(const ContextOptions& options) {
  io::EngineOptions chosen;
  chosen.queue_depth = std::max<std::uint32_t>(options.queue_depth, 1);
  chosen.syscalls = options.syscalls.get();
  return chosen;
}

}  // namespace

Services::Services(ContextOptions options_in)
    : options(std::move(options_in)),
      choice(io::make_engine(options.engine, engine_options(options))),
      coordinator(options.coordinator != nullptr ? *options.coordinator : single_process()),
      clock(options.clock != nullptr ? *options.clock : system_clock()),
      buffers(options.staging_bytes != 0 ? options.staging_bytes : half_of_memory()),
      plans(std::make_shared<KeptMemory>(kMostPlanBytes)),
      transfers(std::max<std::size_t>(options.queue_depth, 1)),
      engine(std::move(choice.engine)),
      workers(worker_threads(options), "cairn-worker"),
      coroutines(kCoroutineThreads, "cairn-task") {
  if (options.reserve_bytes != 0) {
    buffers.reserve(options.reserve_bytes, worker_threads(options));
  }
}

std::shared_ptr<Services> Services::create(ContextOptions options) {
  // The last reference may be a coroutine's, dropped on a thread that the destructor would have to join.
  const auto destroy = [](Services* services) {
    const auto end = [services, gone = services->gone] {
      delete services;
      gone.set();
    };
    if (services->coroutines.runs_this_thread() || services->workers.runs_this_thread()) {
      std::thread(end).detach();
    } else {
      end();
    }
  };
  return {new Services(std::move(options)), destroy};
}

void Services::enter(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    throw Error(Errc::closed, "the context was closed");
  }
  operations_.push_back(operation);
}

void Services::leave(const Operation* operation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(operations_, [operation](const auto& entered) { return entered.get() == operation; });
  left_.notify_all();
}

void Services::lose(const std::string& path, const std::exception_ptr& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_) {
      lost_ = failure;
    }
  }
  if (options.on_lost_failure) {
    options.on_lost_failure(path, failure);
  }
}

std::exception_ptr Services::close() {
  std::vector<std::shared_ptr<Operation>> running;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    running = operations_;
  }
  const auto deadline = std::chrono::steady_clock::now() + options.close_timeout;
  for (const auto& operation : running) {
    if (!operation->done().wait_for(deadline - std::chrono::steady_clock::now())) {
      operation->stop(Errc::closed, "the context was closed before this ended");
    }
  }
  // An operation leaves after it has told everybody how it ended, so that nothing lost is missed here. One whose
  // handler never returns is left behind; it keeps these services alive.
  std::unique_lock lock(mutex_);
  left_.wait_for(lock, kCancelGrace, [this] { return operations_.empty(); });
  return std::exchange(lost_, nullptr);
}

}  // namespace cairn::core
